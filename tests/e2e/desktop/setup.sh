#!/bin/sh
# Runs in the image: an X server and a window that writes down what reaches it, from the start on.
set -eu
cat >/etc/systemd/system/xserver.service <<'UNIT'
[Unit]
Description=X server on the first terminal
[Service]
ExecStart=/usr/bin/Xorg :0 vt1 -noreset -nolisten tcp -s 0 -dpms
Restart=always
[Install]
WantedBy=multi-user.target
UNIT
cat >/etc/systemd/system/target.service <<'UNIT'
[Unit]
After=xserver.service
[Service]
Environment=DISPLAY=:0
ExecStart=/usr/bin/python3 /opt/target.py /run/target.log
Restart=always
RestartSec=1
StartLimitIntervalSec=0
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable xserver.service target.service
systemctl mask getty@tty1.service
mkdir -p /etc/X11/xorg.conf.d
cat >/etc/X11/xorg.conf.d/10-moat.conf <<'CONF'
Section "ServerFlags"
	Option "BlankTime" "0"
	Option "DontZap" "true"
EndSection
Section "Device"
	Identifier "card"
	Driver "modesetting"
	Option "AccelMethod" "none"
EndSection
CONF
