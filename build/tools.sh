# Sourced by other scripts. need TARGET TOOL:PACKAGE…: exits with a line that names the Debian packages that TARGET lacks. A
# tool is a command, even if only root has it in PATH, or a file by its full path.
need() {
	target=$1 missing=
	shift
	for tool; do
		case $tool in
		/*) [ -e "${tool%:*}" ] ;;
		*) PATH=$PATH:/usr/sbin:/sbin command -v "${tool%:*}" >/dev/null ;;
		esac || missing="$missing ${tool##*:}"
	done
	[ -z "$missing" ] || { echo "$target needs$missing: apt-get install --no-install-recommends$missing" >&2; exit 1; }
}
