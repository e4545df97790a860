#include "driver/vagrant/libvirt/names.h"

#include <stddef.h>

#include "tap.h"
#include "util/auto.h"

#define UUID "6f1e8a2c-0b3d-4c5e-9f70-123456789abc"

static void test_uuids(void)
{
	static const char *const bad[] = {"", "3", "default", "6f1e8a2c0b3d4c5e9f70123456789abc",
		"6f1e8a2c-0b3d-4c5e-9f70-123456789ab", (UUID "d"), (UUID "\n"), (" " UUID),
		"6F1E8A2C-0B3D-4C5E-9F70-123456789ABC", "6f1e8a2c-0b3d-4c5e-9f70-123456789abg",
		"6f1e8a2c-0b3d-4c5e-9f700123456789abc", "------------------------------------"};

	OK(libvirt_is_uuid(UUID));
	for (unsigned i = 0; i < ARRAY_LEN(bad); i++)
		OK(!libvirt_is_uuid(bad[i]));
}

/* A part of a line is no line. */
static void test_lines(void)
{
	static const char list[] = "aa-1\n\n  bb-2 \r\ncc-3";

	OK(libvirt_has_line(list, "aa-1"));
	OK(libvirt_has_line(list, "bb-2"));
	OK(libvirt_has_line(list, "cc-3"));
	OK(!libvirt_has_line(list, "a-1"));
	OK(!libvirt_has_line(list, "bb"));
	OK(!libvirt_has_line(list, "3"));
	OK(!libvirt_has_line(list, ""));
	OK(!libvirt_has_line("", "aa-1"));
	OK(!libvirt_has_line(" \n \n", ""));
}

/* A volume that the Vagrantfile only lends to a machine may have a name that begins like its. */
static void test_disks(void)
{
	static const char *const theirs[] = {"db", "db.qcow2", "db-data.qcow2", "db-vdc.qcow2",
		"db-vdb", "db-vdb.", "db-.qcow2", "db-vdb.tar.gz", "db-vdb.old~", "db_.img",
		"db_x.img", "db_1.img.bak", "db.img.bak", "db_1.qcow2", "db-vdb_1.img", "db2.img",
		"d.img", "my-db.img", ""};

	OK(libvirt_is_own_disk("db.img", "db", "vda"));
	OK(libvirt_is_own_disk("db_1.img", "db", "vdb"));
	OK(libvirt_is_own_disk("db_12.img", "db", "vdm"));
	OK(libvirt_is_own_disk("db-vdb.qcow2", "db", "vdb"));
	OK(libvirt_is_own_disk("db-sdaa.raw", "db", "sdaa"));
	OK(libvirt_is_own_disk("db-vdc.qcow2", "db", NULL));
	for (unsigned i = 0; i < ARRAY_LEN(theirs); i++)
		OK(!libvirt_is_own_disk(theirs[i], "db", "vdb"));
	OK(!libvirt_is_own_disk(".img", "", "vda"));
}

int main(void)
{
	test_uuids();
	test_lines();
	test_disks();
	return tap_done();
}
