# Installs what was built, under DESTDIR. It needs neither npm nor a network. The Makefile of the sources includes it, and it is
# the Makefile of the tarball that `make dist` makes.
.DEFAULT_GOAL := help
.PHONY: help install install-uxplay install-screen install-tls install-update
# The folders of the package's files, and of what was built.
SOURCES ?= package
BUILT ?= .
UNITDIR ?= /usr/lib/systemd/system

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

install: ## install the files under DESTDIR, for an image: make install DESTDIR=/path/to/root
	install -D -m 755 $(SOURCES)/receiverd "$(DESTDIR)/usr/bin/receiverd"
	install -D -m 755 $(BUILT)/receiverd.cjs "$(DESTDIR)/usr/lib/receiverd/receiverd.cjs"
	install -D -m 755 $(SOURCES)/card "$(DESTDIR)/usr/lib/receiverd/card"
	install -D -m 644 -t "$(DESTDIR)$(UNITDIR)" \
		$(SOURCES)/receiverd.service $(SOURCES)/receiverd.socket $(SOURCES)/receiverd-engines.socket \
		$(SOURCES)/receiverd-card.service
	install -D -m 644 $(SOURCES)/receiverd.preset "$(DESTDIR)/usr/lib/systemd/system-preset/50-receiverd.preset"
	install -D -m 644 $(SOURCES)/receiverd.tmpfiles "$(DESTDIR)/usr/lib/tmpfiles.d/receiverd.conf"
	install -D -m 644 $(SOURCES)/receiverd.sysusers "$(DESTDIR)/usr/lib/sysusers.d/receiverd.conf"
	install -D -m 644 $(SOURCES)/receiverd.8 "$(DESTDIR)/usr/share/man/man8/receiverd.8"
	install -D -m 644 $(SOURCES)/receiverd.default "$(DESTDIR)/etc/default/receiverd"
	install -D -m 644 $(SOURCES)/avahi.conf "$(DESTDIR)$(UNITDIR)/avahi-daemon.service.d/50-receiverd.conf"
	install -D -m 644 $(SOURCES)/receiverd.options "$(DESTDIR)/usr/share/doc/receiverd/examples/receiverd.options"
	install -D -m 644 $(SOURCES)/LICENSE "$(DESTDIR)/usr/share/doc/receiverd/copyright"
	install -D -m 644 $(BUILT)/THIRD-PARTY "$(DESTDIR)/usr/share/doc/receiverd/THIRD-PARTY"

install-uxplay: ## the same for the unit of UxPlay, for an image that mirrors
	install -D -m 755 $(SOURCES)/uxplay "$(DESTDIR)/usr/lib/receiverd/uxplay"
	install -D -m 644 $(SOURCES)/uxplay.service "$(DESTDIR)$(UNITDIR)/uxplay.service"
	install -D -m 644 $(SOURCES)/uxplay.sysusers "$(DESTDIR)/usr/lib/sysusers.d/uxplay.conf"

install-screen: ## the same for the screen: weston, and what it shows while nobody mirrors
	install -D -m 755 $(SOURCES)/screen "$(DESTDIR)/usr/lib/receiverd/screen"
	install -D -m 644 -t "$(DESTDIR)$(UNITDIR)" $(SOURCES)/weston.service $(SOURCES)/screen@.service
	install -D -m 644 $(SOURCES)/weston.rules "$(DESTDIR)/usr/lib/udev/rules.d/70-weston.rules"
	install -D -m 644 $(SOURCES)/weston.sysusers "$(DESTDIR)/usr/lib/sysusers.d/weston.conf"
	install -D -m 644 $(SOURCES)/screen.tmpfiles "$(DESTDIR)/usr/lib/tmpfiles.d/receiverd-screen.conf"

install-tls: ## the same for TLS: nginx in front, the only part that can be reached from outside
	install -D -m 644 $(SOURCES)/nginx.conf "$(DESTDIR)/etc/receiverd/nginx.conf"
	install -D -m 644 $(SOURCES)/tls-socket.conf "$(DESTDIR)$(UNITDIR)/receiverd.socket.d/zz-tls.conf"
	install -D -m 644 $(SOURCES)/tls-service.conf "$(DESTDIR)$(UNITDIR)/receiverd.service.d/50-tls.conf"
	install -D -m 644 $(SOURCES)/tls-nginx.conf "$(DESTDIR)$(UNITDIR)/nginx.service.d/50-receiverd.conf"

install-update: ## the same for updates by RAUC: the judgment of a new version, downloads, and D-Bus closed to everyone but root
	install -D -m 755 -t "$(DESTDIR)/usr/lib/receiverd" $(SOURCES)/judge $(SOURCES)/download
	install -D -m 644 -t "$(DESTDIR)$(UNITDIR)" $(SOURCES)/receiverd-judge.service $(SOURCES)/receiverd-good.service \
		$(SOURCES)/receiverd-late.service $(SOURCES)/receiverd-late.timer \
		$(SOURCES)/receiverd-download.socket $(SOURCES)/receiverd-download@.service
	install -D -m 644 $(SOURCES)/update-reboot.conf "$(DESTDIR)$(UNITDIR)/reboot.target.d/50-receiverd.conf"
	install -D -m 644 $(SOURCES)/receiverd-update.preset "$(DESTDIR)/usr/lib/systemd/system-preset/50-receiverd-update.preset"
	install -D -m 644 $(SOURCES)/download.sysusers "$(DESTDIR)/usr/lib/sysusers.d/receiverd-download.conf"
	install -D -m 644 $(SOURCES)/rauc-dbus.conf "$(DESTDIR)/etc/dbus-1/system.d/receiverd-rauc.conf"
