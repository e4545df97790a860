/* Host keys that an SSH server can use: read back by the library that clients use. */
#include "guestlink/hostkey.h"

#include <libssh/libssh.h>
#include <stdbool.h>

#include "tap.h"
#include "util/auto.h"

/* Whether the two files belong together, and are of that kind. */
static bool is_pair(const struct hostkey *k, const char *type)
{
	auto_free char *line = strdup(k->public);
	char *rest = line, *name = strsep(&rest, " "), *text = strsep(&rest, " ");
	ssh_key secret = NULL, public = NULL;
	bool good = false;

	if (ssh_pki_import_privkey_base64(k->secret, NULL, NULL, NULL, &secret) == SSH_OK &&
		ssh_pki_import_pubkey_base64(text, ssh_key_type_from_name(name), &public) == SSH_OK)
		good = ssh_key_cmp(secret, public, SSH_KEY_CMP_PUBLIC) == 0;
	ssh_key_free(secret);
	ssh_key_free(public);
	return good && strcmp(name, type) == 0 && rest && strcmp(rest, "root@web\n") == 0;
}

int main(void)
{
	static const char *const kinds[][2] = {
		{"ed25519", "ssh-ed25519"}, {"ecdsa", "ecdsa-sha2-nistp256"}, {"rsa", "ssh-rsa"}};
	struct hostkey k = {0}, other = {0};
	struct err e;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		OK(hostkey_make(kinds[i][0], "root@web", &k, &e) == 0);
		STR_IS(k.kind, kinds[i][0]);
		OK(is_pair(&k, kinds[i][1]));
		OK(strncmp(k.secret, "-----BEGIN ", 11) == 0);
		hostkey_free(&k);
	}
	OK(hostkey_make("ed25519", "root@web", &k, &e) == 0);
	OK(hostkey_make("ed25519", "root@web", &other, &e) == 0);
	OK(strcmp(k.secret, other.secret) != 0 && strcmp(k.public, other.public) != 0);
	hostkey_free(&k);
	hostkey_free(&other);
	hostkey_free(&other);
	OK(hostkey_make("dsa", "root@web", &k, &e) < 0 && e.kind == ERR_UNSUPPORTED && !k.secret);
	return tap_done();
}
