#include "screen/keys.h"

#include <string.h>
#include <strings.h>

#include "util/auto.h"

#define CHARACTER(q, n, a, b)                                                                      \
	{                                                                                          \
		q, n, a, b, 0, 1, 2                                                                \
	}
#define PLAIN(q, n, sym)                                                                           \
	{                                                                                          \
		q, n, 0, 0, sym, 1, 2                                                              \
	}
#define EXTENDED(q, n, sym)                                                                        \
	{                                                                                          \
		q, n, 0, 0, sym, 2, 3                                                              \
	} /* with a byte in front */

static const struct keycap keys[] = {
	CHARACTER("a", "", 'a', 'A'),
	CHARACTER("b", "", 'b', 'B'),
	CHARACTER("c", "", 'c', 'C'),
	CHARACTER("d", "", 'd', 'D'),
	CHARACTER("e", "", 'e', 'E'),
	CHARACTER("f", "", 'f', 'F'),
	CHARACTER("g", "", 'g', 'G'),
	CHARACTER("h", "", 'h', 'H'),
	CHARACTER("i", "", 'i', 'I'),
	CHARACTER("j", "", 'j', 'J'),
	CHARACTER("k", "", 'k', 'K'),
	CHARACTER("l", "", 'l', 'L'),
	CHARACTER("m", "", 'm', 'M'),
	CHARACTER("n", "", 'n', 'N'),
	CHARACTER("o", "", 'o', 'O'),
	CHARACTER("p", "", 'p', 'P'),
	CHARACTER("q", "", 'q', 'Q'),
	CHARACTER("r", "", 'r', 'R'),
	CHARACTER("s", "", 's', 'S'),
	CHARACTER("t", "", 't', 'T'),
	CHARACTER("u", "", 'u', 'U'),
	CHARACTER("v", "", 'v', 'V'),
	CHARACTER("w", "", 'w', 'W'),
	CHARACTER("x", "", 'x', 'X'),
	CHARACTER("y", "", 'y', 'Y'),
	CHARACTER("z", "", 'z', 'Z'),
	CHARACTER("1", "", '1', '!'),
	CHARACTER("2", "", '2', '@'),
	CHARACTER("3", "", '3', '#'),
	CHARACTER("4", "", '4', '$'),
	CHARACTER("5", "", '5', '%'),
	CHARACTER("6", "", '6', '^'),
	CHARACTER("7", "", '7', '&'),
	CHARACTER("8", "", '8', '*'),
	CHARACTER("9", "", '9', '('),
	CHARACTER("0", "", '0', ')'),
	CHARACTER("minus", "", '-', '_'),
	CHARACTER("equal", "", '=', '+'),
	CHARACTER("bracket_left", "", '[', '{'),
	CHARACTER("bracket_right", "", ']', '}'),
	CHARACTER("backslash", "", '\\', '|'),
	CHARACTER("semicolon", "", ';', ':'),
	CHARACTER("apostrophe", "", '\'', '"'),
	CHARACTER("grave_accent", "", '`', '~'),
	CHARACTER("comma", "", ',', '<'),
	CHARACTER("dot", "", '.', '>'),
	CHARACTER("slash", "", '/', '?'),
	CHARACTER("spc", "space spacebar", ' ', 0),
	PLAIN("ret", "Return Enter", 0xff0d),
	PLAIN("tab", "Tab ISO_Left_Tab", 0xff09),
	PLAIN("esc", "Escape Esc", 0xff1b),
	PLAIN("backspace", "BackSpace", 0xff08),
	PLAIN("shift", "shift Shift_L", 0xffe1),
	PLAIN("shift_r", "Shift_R", 0xffe2),
	PLAIN("ctrl", "ctrl ctl control Control_L ctrl_l", 0xffe3),
	EXTENDED("ctrl_r", "Control_R ctrl_r", 0xffe4),
	PLAIN("alt", "alt Alt_L alt_l opt option", 0xffe9),
	EXTENDED("alt_r", "Alt_R AltGr ISO_Level3_Shift", 0xffea),
	EXTENDED("meta_l", "super Super_L meta Meta_L win windows cmd command", 0xffeb),
	EXTENDED("meta_r", "Super_R Meta_R", 0xffec),
	EXTENDED("compose", "Menu", 0xff67),
	PLAIN("caps_lock", "Caps_Lock CapsLock", 0xffe5),
	PLAIN("num_lock", "Num_Lock NumLock", 0xff7f),
	PLAIN("scroll_lock", "Scroll_Lock ScrollLock", 0xff14),
	PLAIN("f1", "F1", 0xffbe),
	PLAIN("f2", "F2", 0xffbf),
	PLAIN("f3", "F3", 0xffc0),
	PLAIN("f4", "F4", 0xffc1),
	PLAIN("f5", "F5", 0xffc2),
	PLAIN("f6", "F6", 0xffc3),
	PLAIN("f7", "F7", 0xffc4),
	PLAIN("f8", "F8", 0xffc5),
	PLAIN("f9", "F9", 0xffc6),
	PLAIN("f10", "F10", 0xffc7),
	PLAIN("f11", "F11", 0xffc8),
	PLAIN("f12", "F12", 0xffc9),
	EXTENDED("insert", "Insert", 0xff63),
	EXTENDED("delete", "Delete Del", 0xffff),
	EXTENDED("home", "Home", 0xff50),
	EXTENDED("end", "End", 0xff57),
	EXTENDED("pgup", "Prior Page_Up PageUp", 0xff55),
	EXTENDED("pgdn", "Next Page_Down PageDown", 0xff56),
	EXTENDED("left", "Left ArrowLeft", 0xff51),
	EXTENDED("up", "Up ArrowUp", 0xff52),
	EXTENDED("right", "Right ArrowRight", 0xff53),
	EXTENDED("down", "Down ArrowDown", 0xff54),
	{"print", "Print PrintScreen PrtScr Sys_Req", 0, 0, 0xff61, 4, 6},
	{"pause", "Pause Break", 0, 0, 0xff13, 8, 1},
	PLAIN("less", "less_102", 0x3c), /* beside the left shift, on keyboards outside the US */
	PLAIN("kp_0", "KP_0 KP_Insert", 0xffb0),
	PLAIN("kp_1", "KP_1 KP_End", 0xffb1),
	PLAIN("kp_2", "KP_2 KP_Down", 0xffb2),
	PLAIN("kp_3", "KP_3 KP_Next KP_Page_Down", 0xffb3),
	PLAIN("kp_4", "KP_4 KP_Left", 0xffb4),
	PLAIN("kp_5", "KP_5 KP_Begin", 0xffb5),
	PLAIN("kp_6", "KP_6 KP_Right", 0xffb6),
	PLAIN("kp_7", "KP_7 KP_Home", 0xffb7),
	PLAIN("kp_8", "KP_8 KP_Up", 0xffb8),
	PLAIN("kp_9", "KP_9 KP_Prior KP_Page_Up", 0xffb9),
	EXTENDED("kp_enter", "KP_Enter", 0xff8d),
	PLAIN("kp_add", "KP_Add", 0xffab),
	PLAIN("kp_subtract", "KP_Subtract", 0xffad),
	PLAIN("kp_multiply", "KP_Multiply", 0xffaa),
	EXTENDED("kp_divide", "KP_Divide", 0xffaf),
	PLAIN("kp_decimal", "KP_Decimal KP_Delete KP_Separator", 0xffae),
	EXTENDED("ac_back", "XF86Back", 0),
	EXTENDED("ac_forward", "XF86Forward", 0),
};

/* Places in the table. test-keys checks them. */
const struct keycap *const key_enter = &keys[48], *const key_tab = &keys[49],
			   *const key_shift = &keys[52], *const key_alt = &keys[56],
			   *const key_back = &keys[ARRAY_LEN(keys) - 2],
			   *const key_forward = &keys[ARRAY_LEN(keys) - 1];

/* X11's names of characters. */
static const struct {
	const char *name;
	char c;
} characters[] = {
	{"exclam", '!'},
	{"quotedbl", '"'},
	{"numbersign", '#'},
	{"dollar", '$'},
	{"percent", '%'},
	{"ampersand", '&'},
	{"apostrophe", '\''},
	{"quoteright", '\''},
	{"parenleft", '('},
	{"parenright", ')'},
	{"asterisk", '*'},
	{"plus", '+'},
	{"comma", ','},
	{"minus", '-'},
	{"period", '.'},
	{"slash", '/'},
	{"colon", ':'},
	{"semicolon", ';'},
	{"less", '<'},
	{"equal", '='},
	{"KP_Equal", '='},
	{"greater", '>'},
	{"question", '?'},
	{"at", '@'},
	{"bracketleft", '['},
	{"backslash", '\\'},
	{"bracketright", ']'},
	{"asciicircum", '^'},
	{"underscore", '_'},
	{"grave", '`'},
	{"quoteleft", '`'},
	{"braceleft", '{'},
	{"bar", '|'},
	{"braceright", '}'},
	{"asciitilde", '~'},
};

int stroke_of_char(unsigned c, struct stroke *ret)
{
	if (c == '\n' || c == '\t') {
		*ret = (struct stroke){c == '\n' ? key_enter : key_tab, false};
		return 0;
	}
	for (size_t i = 0; c && c < 128 && i < ARRAY_LEN(keys); i++)
		if ((unsigned)keys[i].plain == c || (unsigned)keys[i].shifted == c) {
			*ret = (struct stroke){&keys[i], (unsigned)keys[i].plain != c};
			return 0;
		}
	return -1;
}

/* Whether the list, with spaces between, has the name. */
static bool lists(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");

		if (len == n && strncasecmp(at, name, n) == 0)
			return true;
		at += len;
	}
	return false;
}

int stroke_of_name(const char *name, struct stroke *ret)
{
	if (name[0] && !name[1] && name[0] > ' ')
		return stroke_of_char((unsigned char)name[0], ret);
	for (size_t i = 0; i < ARRAY_LEN(characters); i++)
		if (strcasecmp(characters[i].name, name) == 0)
			return stroke_of_char((unsigned char)characters[i].c, ret);
	for (size_t i = 0; name[0] && i < ARRAY_LEN(keys); i++)
		if (lists(keys[i].names, name)) {
			*ret = (struct stroke){&keys[i], false};
			return 0;
		}
	return -1;
}
