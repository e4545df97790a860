#include "guestlink/hostkey.h"

#include <libssh/libssh.h>
#include <stdlib.h>
#include <string.h>

#include "util/auto.h"
#include "util/str.h"

static const struct kind {
	const char *name;
	enum ssh_keytypes_e type;
	int bits;
} kinds[] = {{"ed25519", SSH_KEYTYPE_ED25519, 0}, {"ecdsa", SSH_KEYTYPE_ECDSA, 256},
	{"rsa", SSH_KEYTYPE_RSA, 3072}};
_Static_assert(ARRAY_LEN(kinds) == HOSTKEYS_MAX, "one for each kind");

static const struct kind *find(const char *name)
{
	for (unsigned i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	return NULL;
}

/* "ssh-ed25519 AAAA... root@web" */
static int public_line(ssh_key key, const char *comment, char **ret, struct err *e)
{
	const char *type = ssh_key_type(key) == SSH_KEYTYPE_ECDSA_P256 ||
					   ssh_key_type(key) == SSH_KEYTYPE_ECDSA
				   ? ssh_pki_key_ecdsa_name(key)
				   : ssh_key_type_to_char(ssh_key_type(key));
	char *text;
	int rc;

	if (ssh_pki_export_pubkey_base64(key, &text) != SSH_OK)
		return err_set(e, ERR_INTERNAL, "a host key cannot be written");
	rc = str_printf(ret, e, "%s %s %s\n", type, text, comment);
	ssh_string_free_char(text);
	return rc;
}

static int secret_text(ssh_key key, char **ret, struct err *e)
{
	char *text;
	int rc;

	if (ssh_pki_export_privkey_base64(key, NULL, NULL, NULL, &text) != SSH_OK)
		return err_set(e, ERR_INTERNAL, "a host key cannot be written");
	rc = str_dup(text, ret, e);
	explicit_bzero(text, strlen(text));
	ssh_string_free_char(text);
	return rc;
}

int hostkey_make(const char *kind, const char *comment, struct hostkey *ret, struct err *e)
{
	const struct kind *k = find(kind);
	struct hostkey made = {0};
	ssh_key key;
	int rc;

	if (!k)
		return err_set(e, ERR_UNSUPPORTED, "no kind of host key");
	if (ssh_pki_generate(k->type, k->bits, &key) != SSH_OK)
		return err_set(e, ERR_INTERNAL, "a host key cannot be made");
	memcpy(made.kind, k->name, strlen(k->name) + 1);
	rc = secret_text(key, &made.secret, e) < 0 ? -1
						   : public_line(key, comment, &made.public, e);
	ssh_key_free(key);
	if (rc < 0)
		hostkey_free(&made);
	else
		*ret = made;
	return rc;
}

void hostkey_free(struct hostkey *k)
{
	if (k->secret)
		explicit_bzero(k->secret, strlen(k->secret));
	free(k->secret);
	free(k->public);
	*k = (struct hostkey){0};
}
