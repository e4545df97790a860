/* modules.h - loads kernel modules, also for the kernel when it asks for one. */
#pragma once

/* Where the modules are from now on; "": as the image of the kernel has them. */
#define MODULES "/lib/modules"

/* Loads a module by its name or an alias, with those it depends on. 0 or an errno. */
int module_load(const char *name);
/* Loads what the devices on a bus need. */
void modules_for_bus(const char *bus);
/* The kernel calls us as its modprobe: "-q -- NAME". */
int modprobe_main(int argc, char **argv);
