/*
 * How it works: OVF 1 (DMTF DSP0243), which VirtualBox, VMware's tools and Proxmox VE all read. The
 * members of an Item stand in the alphabetical order that its schema demands.
 */
#include "store/disk/ovf-text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VCPUS = 2, RAM_MB = 2048 };

static void put_xml(struct buf *b, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			buf_puts(b, "&amp;");
			break;
		case '<':
			buf_puts(b, "&lt;");
			break;
		case '>':
			buf_puts(b, "&gt;");
			break;
		case '"':
			buf_puts(b, "&quot;");
			break;
		default:
			buf_put(b, text, 1);
		}
	}
}

static void put_disk(const struct ovf_disk *d, struct buf *b)
{
	buf_putf(b,
		"  <References>\n"
		"    <File ovf:href=\"%s-disk1.vmdk\" ovf:id=\"file1\" ovf:size=\"%" PRIu64 "\"/>\n"
		"  </References>\n"
		"  <DiskSection>\n"
		"    <Info>The virtual disk</Info>\n"
		"    <Disk ovf:capacity=\"%" PRIu64
		"\" ovf:capacityAllocationUnits=\"byte\" ovf:diskId=\"vmdisk1\""
		" ovf:fileRef=\"file1\" ovf:format=\"http://www.vmware.com/interfaces/"
		"specifications/vmdk.html#streamOptimized\"/>\n"
		"  </DiskSection>\n"
		"  <NetworkSection>\n"
		"    <Info>The network</Info>\n"
		"    <Network ovf:name=\"VM Network\">\n"
		"      <Description>The network of the virtual machine</Description>\n"
		"    </Network>\n"
		"  </NetworkSection>\n",
		d->name, d->size, d->capacity);
}

/* The numbers and names are those of the common information model (DSP0004). */
static const char *os_section(const struct image *img)
{
	if (strcmp(img->os_type, "l26") == 0 || strcmp(img->os_type, "l24") == 0)
		return "ovf:id=\"101\" vmw:osType=\"other3xLinux64Guest\"";
	return "ovf:id=\"1\" vmw:osType=\"otherGuest64\"";
}

static void put_items(uint64_t ram_mb, struct buf *b)
{
	buf_putf(b,
		"      <Item>\n"
		"        <rasd:AllocationUnits>hertz * 10^6</rasd:AllocationUnits>\n"
		"        <rasd:ElementName>%d virtual CPUs</rasd:ElementName>\n"
		"        <rasd:InstanceID>1</rasd:InstanceID>\n"
		"        <rasd:ResourceType>3</rasd:ResourceType>\n"
		"        <rasd:VirtualQuantity>%d</rasd:VirtualQuantity>\n"
		"      </Item>\n"
		"      <Item>\n"
		"        <rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits>\n"
		"        <rasd:ElementName>%" PRIu64 " MB of memory</rasd:ElementName>\n"
		"        <rasd:InstanceID>2</rasd:InstanceID>\n"
		"        <rasd:ResourceType>4</rasd:ResourceType>\n"
		"        <rasd:VirtualQuantity>%" PRIu64 "</rasd:VirtualQuantity>\n"
		"      </Item>\n",
		VCPUS, VCPUS, ram_mb, ram_mb);
	buf_puts(b, "      <Item>\n"
		    "        <rasd:Address>0</rasd:Address>\n"
		    "        <rasd:ElementName>SATA controller</rasd:ElementName>\n"
		    "        <rasd:InstanceID>3</rasd:InstanceID>\n"
		    "        <rasd:ResourceSubType>AHCI</rasd:ResourceSubType>\n"
		    "        <rasd:ResourceType>20</rasd:ResourceType>\n"
		    "      </Item>\n"
		    "      <Item>\n"
		    "        <rasd:AddressOnParent>0</rasd:AddressOnParent>\n"
		    "        <rasd:ElementName>Disk 1</rasd:ElementName>\n"
		    "        <rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource>\n"
		    "        <rasd:InstanceID>4</rasd:InstanceID>\n"
		    "        <rasd:Parent>3</rasd:Parent>\n"
		    "        <rasd:ResourceType>17</rasd:ResourceType>\n"
		    "      </Item>\n"
		    "      <Item>\n"
		    "        <rasd:AutomaticAllocation>true</rasd:AutomaticAllocation>\n"
		    "        <rasd:Connection>VM Network</rasd:Connection>\n"
		    "        <rasd:ElementName>Network card</rasd:ElementName>\n"
		    "        <rasd:InstanceID>5</rasd:InstanceID>\n"
		    "        <rasd:ResourceSubType>E1000</rasd:ResourceSubType>\n"
		    "        <rasd:ResourceType>10</rasd:ResourceType>\n"
		    "      </Item>\n");
}

static void put_machine(const struct image *img, const char *name, struct buf *b)
{
	uint64_t ram_mb = img->min_ram_mb > RAM_MB ? img->min_ram_mb : RAM_MB;

	buf_putf(b,
		"  <VirtualSystem ovf:id=\"%s\">\n"
		"    <Info>A virtual machine</Info>\n"
		"    <Name>%s</Name>\n"
		"    <OperatingSystemSection %s>\n"
		"      <Info>The system on the disk</Info>\n"
		"    </OperatingSystemSection>\n"
		"    <AnnotationSection>\n"
		"      <Info>What it is</Info>\n"
		"      <Annotation>",
		name, name, os_section(img));
	put_xml(b, img->description);
	buf_putf(b,
		"</Annotation>\n"
		"    </AnnotationSection>\n"
		"    <VirtualHardwareSection>\n"
		"      <Info>Virtual hardware</Info>\n"
		"      <System>\n"
		"        <vssd:ElementName>Virtual Hardware Family</vssd:ElementName>\n"
		"        <vssd:InstanceID>0</vssd:InstanceID>\n"
		"        <vssd:VirtualSystemIdentifier>%s</vssd:VirtualSystemIdentifier>\n"
		"        <vssd:VirtualSystemType>vmx-10</vssd:VirtualSystemType>\n"
		"      </System>\n",
		name);
	put_items(ram_mb, b);
	if (strcmp(img->firmware, "uefi") == 0)
		buf_puts(b, "      <vmw:Config ovf:required=\"false\" vmw:key=\"firmware\""
			    " vmw:value=\"efi\"/>\n");
	buf_puts(b, "    </VirtualHardwareSection>\n"
		    "  </VirtualSystem>\n");
}

int ovf_text(const struct image *img, const struct ovf_disk *disk, struct buf *ret, struct err *e)
{
	buf_puts(ret,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<Envelope ovf:version=\"1.0\" xmlns=\"http://schemas.dmtf.org/ovf/envelope/1\""
		" xmlns:ovf=\"http://schemas.dmtf.org/ovf/envelope/1\""
		" xmlns:rasd=\"http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/"
		"CIM_ResourceAllocationSettingData\""
		" xmlns:vssd=\"http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/"
		"CIM_VirtualSystemSettingData\""
		" xmlns:vmw=\"http://www.vmware.com/schema/ovf\">\n");
	put_disk(disk, ret);
	put_machine(img, disk->name, ret);
	buf_puts(ret, "</Envelope>\n");
	return buf_check(ret, e);
}
