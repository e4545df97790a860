# shellcheck shell=sh
# packages.sh PROXIES PACKAGE... - inside an image. PROXIES: lines for apt's configuration.
command -v apt-get >/dev/null || {
	echo 'E: the base has no apt-get: packages can be added to Debian, Ubuntu and Kali only'
	exit 1
}
printf '%s\n' "$1" >/etc/apt/apt.conf.d/99moat-proxies
shift
options='-q -y -o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o Acquire::https::Timeout=30
	-o Acquire::Languages=none -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-unsafe-io
	-o Dpkg::Options::=--force-confold'
# shellcheck disable=SC2086 # options
apt-get $options update
# shellcheck disable=SC2086 # options
apt-get $options install -- "$@"
