set pagination off
set width 0
break check
continue
print vault.limit
watch vault.limit
reverse-continue
bt
print day
