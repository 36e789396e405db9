#!/bin/sh
sed -i "s/restartPolicy: Always/restartPolicy: Sometimes/" "$1"
