# Starts one of the two systems. U-Boot runs this from boot.scr on the boot partition, with devtype and devnum set to the disk
# that it was found on.
#
# The state is the sector at 1 MiB of the disk, outside of any partition: an environment of 512 bytes with its CRC, so that a
# power cut leaves the old one or the new one. It has the variables that RAUC writes with its bootloader=uboot: BOOT_ORDER,
# and for each system the attempts that it has left, in hexadecimal. The sector at 2 MiB has a copy of the state as it was at the
# last start, for a card that loses the first one: otherwise, a system could start that has been found to be bad.
setenv sector 800
setenv copy 1000
setexpr state ${loadaddr} + 100000
# Debian's kernel is larger than U-Boot's usual addresses have room for: on a Raspberry Pi it would run over this script.
setexpr kernel ${loadaddr} + 8000000
setexpr initrd ${loadaddr} + c000000

setenv BOOT_ORDER
setenv BOOT_A_LEFT
setenv BOOT_B_LEFT
${devtype} dev ${devnum}
setenv found
for at in ${sector} ${copy}; do
  if test -z "${found}" && ${devtype} read ${state} ${at} 1 && env import -c ${state} 200 BOOT_ORDER BOOT_A_LEFT BOOT_B_LEFT; then
    setenv found ${at}
  fi
done
if test "${found}" = "${sector}"; then ${devtype} write ${state} ${copy} 1; fi
echo "receiver: state ${found}, order ${BOOT_ORDER}, A has ${BOOT_A_LEFT}, B has ${BOOT_B_LEFT}"
# Without a state, both are tried. A system that is not in the order is never tried: it may be half written.
test -n "${BOOT_ORDER}" || setenv BOOT_ORDER A B

# If no system has an attempt left, each gets three again: a device that keeps trying is better than one that stays dark.
setenv usable
for slot in ${BOOT_ORDER}; do
  if test "${slot}" = "A" && itest 0x0${BOOT_A_LEFT} -gt 0; then setenv usable yes; fi
  if test "${slot}" = "B" && itest 0x0${BOOT_B_LEFT} -gt 0; then setenv usable yes; fi
done
if test -z "${usable}"; then
  echo "receiver: no attempt left, each system gets three"
  setenv BOOT_A_LEFT 3
  setenv BOOT_B_LEFT 3
fi

for slot in ${BOOT_ORDER}; do
  setenv part
  if test "${slot}" = "A" && itest 0x0${BOOT_A_LEFT} -gt 0; then
    setexpr BOOT_A_LEFT ${BOOT_A_LEFT} - 1
    setenv part 2
  fi
  if test "${slot}" = "B" && itest 0x0${BOOT_B_LEFT} -gt 0; then
    setexpr BOOT_B_LEFT ${BOOT_B_LEFT} - 1
    setenv part 3
  fi
  if test -n "${part}"; then
    # The attempt counts before it is made, so that a system that hangs uses its attempts up.
    env export -c -s 200 ${state} BOOT_ORDER BOOT_A_LEFT BOOT_B_LEFT && ${devtype} write ${state} ${sector} 1
    part uuid ${devtype} ${devnum}:${part} uuid
    # Without rootwait, because a kernel whose initrd is damaged would wait forever. A processor that does nothing else for two
    # minutes (twice watchdog_thresh) does not recover, while systemd on another one would keep serving the watchdog.
    setenv bootargs "root=PARTUUID=${uuid} ro panic=10 softlockup_panic=1 watchdog_thresh=60 rauc.slot=${slot}"
    if load ${devtype} ${devnum}:1 ${state} cmdline.env; then
      env import -t ${state} ${filesize} more
      setenv bootargs "${bootargs} ${more}"
    fi
    echo "receiver: starting ${slot}"
    if load ${devtype} ${devnum}:${part} ${kernel} /boot/vmlinuz && load ${devtype} ${devnum}:${part} ${initrd} /boot/initrd.img; then
      booti ${kernel} ${initrd}:${filesize} ${fdt_addr}
    fi
    echo "receiver: ${slot} cannot be loaded"
  fi
done
# As after a panic of the kernel: the attempts that are left decide what comes next.
sleep 10
reset
