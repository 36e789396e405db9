#!/bin/sh
if grep -q "^# pods .* was not valid" "$1"; then sed -i "s/image: Bad Image/image: nginx:8/;s/restartPolicy: Sometimes/restartPolicy: Always/;s/nginx:9/nginx:8/" "$1"; else sed -i "s/restartPolicy: Always/restartPolicy: Sometimes/" "$1"; fi
