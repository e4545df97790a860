# What a CD boots, in place of an installer: it writes a boot sector to the first disk and starts the
# machine anew. All that is said goes to the first serial port.
	.code16
	.globl _start
_start:
	ljmp $0, $here # some firmware begins elsewhere with the same address
here:
	xor %ax, %ax
	mov %ax, %ds
	mov %ax, %es
	mov $installing, %si
	call say
	mov $0x0301, %ax # write one sector...
	mov $0x0001, %cx # ...the first...
	mov $0x0080, %dx # ...of the first disk...
	mov $0x7c00 + system - _start, %bx # ...from here
	int $0x13
	jc failed
	mov $installed, %si
	call say
	mov $0x0cf9, %dx
	mov $6, %al # reset
	out %al, %dx
failed:
	mov $no_disk, %si
	call say
stop:	hlt
	jmp stop

say:	mov $0x3f8, %dx
	lodsb
	test %al, %al
	jz said
	out %al, %dx
	jmp say
said:	ret

installing: .asciz "installing...\r\n"
installed: .asciz "installed, starting anew\r\n"
no_disk: .asciz "there is no disk\r\n"

	# The installed system is where we were, when it runs.
	.org 512
system:
	xor %ax, %ax
	mov %ax, %ds
	mov $0x7c00 + running - system, %si
again:	mov $0x3f8, %dx
	lodsb
	test %al, %al
	jz rest
	out %al, %dx
	jmp again
rest:	hlt
	jmp rest
running: .asciz "the installed system runs\r\n"
	.org 1022
	.word 0xaa55
	.org 2048
