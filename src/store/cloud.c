#include "store/cloud.h"

#include <string.h>

#include "util/auto.h"
#include "util/str.h"

const char *const cloud_packages[] = {"qemu-guest-agent", "autoconf", "automake", "build-essential",
	"bzip2", "curl", "default-libmysqlclient-dev", "dpkg-dev", "file", "g++", "gcc", "git",
	"imagemagick", "libbz2-dev", "libc6-dev", "libcurl4-openssl-dev", "libdb-dev",
	"libevent-dev", "libffi-dev", "libgdbm-dev", "libglib2.0-dev", "libgmp-dev", "libjpeg-dev",
	"libkrb5-dev", "liblzma-dev", "libmagickcore-dev", "libmagickwand-dev", "libmaxminddb-dev",
	"libncurses-dev", "libpng-dev", "libpq-dev", "libreadline-dev", "libsqlite3-dev",
	"libssl-dev", "libtool", "libwebp-dev", "libxml2-dev", "libxslt1-dev", "libyaml-dev",
	"make", "patch", "python3", "python3-pip", "python3-venv", "python-is-python3", "unzip",
	"wget", "xz-utils", "zlib1g-dev", NULL};

static const struct cloud_vendor ubuntu = {
	.name = "ubuntu",
	.host = "https://cloud-images.ubuntu.com",
	.kind = CLOUD_SHA256,
	.sums = "SHA256SUMS",
	.signature = "SHA256SUMS.gpg",
	.fingerprint = "D2EB44626FDDC30B513D5BB71A5D6C4C7DB87C81",
};

/* Debian signs its installation images, but not these. */
static const struct cloud_vendor debian = {
	.name = "debian",
	.host = "https://cloud.debian.org",
	.kind = CLOUD_SHA512,
	.sums = "SHA512SUMS",
};

static const struct cloud_vendor kali = {
	.name = "kali",
	.host = "https://kali.download",
	.kind = CLOUD_SHA256,
	.sums = "SHA256SUMS",
	.signature = "SHA256SUMS.gpg",
	.fingerprint = "827C8569F2518CC677FECA1AED65462EC8D5E4C5",
	.key_host = "https://archive.kali.org",
	.key_path = "/archive-keyring.gpg",
};

#define KALI(name, version)                                                                        \
	{                                                                                          \
		name, "Kali Linux " version, &kali, "/cloud-images/kali-" version "/",             \
			"kali-linux-" version "-cloud-genericcloud-amd64.tar.xz", true             \
	}

static const struct cloud_image images[] = {
	{"ubuntu24.04", "Ubuntu 24.04 (noble)", &ubuntu, "/noble/current/",
		"noble-server-cloudimg-amd64.img", false},
	{"debian13", "Debian 13 (trixie), cloud image", &debian, "/images/cloud/trixie/latest/",
		"debian-13-genericcloud-amd64.qcow2", false},
	{"debian12", "Debian 12 (bookworm), cloud image", &debian, "/images/cloud/bookworm/latest/",
		"debian-12-genericcloud-amd64.qcow2", false},
	KALI("kali", "2025.4"),
	KALI("kali2025.4", "2025.4"),
	KALI("kali2025.3", "2025.3"),
};

const struct cloud_image *cloud_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(images); i++)
		if (strcmp(name, images[i].name) == 0)
			return &images[i];
	return NULL;
}

const char *cloud_names(void)
{
	return "ubuntu24.04, debian13, debian12, kali, kali2025.4, kali2025.3";
}

int cloud_url(const char *mirror, const char *host, const char *dir, const char *file, char **ret,
	struct err *e)
{
	const char *at = *mirror ? mirror : host;
	size_t n = strlen(at);

	while (n && at[n - 1] == '/')
		n--;
	return str_printf(ret, e, "%.*s%s%s", (int)n, at, dir, file);
}

const char proxmox_repository[] = "http://download.proxmox.com/debian/pve";
const char proxmox_keys[] = "https://enterprise.proxmox.com/debian/";

static const struct proxmox_release releases[] = {
	{"proxmox9", "Proxmox VE 9 on Debian 13 (trixie)", "debian13", "trixie",
		"proxmox-archive-keyring-trixie.gpg",
		"136673be77aba35dcce385b28737689ad64fd785a797e57897589aed08db6e45"},
	{"proxmox8", "Proxmox VE 8 on Debian 12 (bookworm)", "debian12", "bookworm",
		"proxmox-release-bookworm.gpg",
		"7da6fe34168adc6e479327ba517796d4702fa2f8b4f0a9833f5ea6e6b48f6507"
		"a6da403a274fe201595edc86a84463d50383d07f64bdde2e3658108db7d6dc87"},
};

const struct proxmox_release *proxmox_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(releases); i++)
		if (strcmp(name, releases[i].name) == 0)
			return &releases[i];
	return NULL;
}
