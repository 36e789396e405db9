#!/bin/sh
sed -i "s/image: nginx:1/image: nginx:9/" "$1"
