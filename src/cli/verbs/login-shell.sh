#!/bin/sh
# login-shell.sh - becomes the user's own shell, as a login shell; without one bash, or else sh.
s=${SHELL:-}
[ -x "$s" ] || s=/bin/bash
[ -x "$s" ] || s=/bin/sh
exec "$s" -l
