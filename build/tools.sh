# To be sourced. need TARGET TOOL:PACKAGE…: ends with one line that says which of Debian's packages TARGET lacks. A tool is a
# command, also one that only root has in its PATH; or a file, by its whole path.
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
