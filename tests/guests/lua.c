/* Lua 5.4 as published in the crate lua-src, running a script: the sieve, string work, tables, closures; the argument is
 * the number of rounds of the script. Exits with what it returns. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>
#include "argument.h"

#ifndef SCRIPT
#define SCRIPT \
	"local rounds = ...\n" \
	"local sum = 0\n" \
	"local function counter() local n = 0 return function() n = n + 1 return n end end\n" \
	"local Point = {} Point.__index = Point\n" \
	"function Point.new(x, y) return setmetatable({x = x, y = y}, Point) end\n" \
	"function Point:add(p) return Point.new(self.x + p.x, self.y ~ p.y) end\n" \
	"for round = 1, rounds do\n" \
	"  local sieve, primes = {}, 0\n" \
	"  for i = 2, 2000 do sieve[i] = true end\n" \
	"  for i = 2, 2000 do if sieve[i] then primes = primes + 1\n" \
	"    for j = i * i, 2000, i do sieve[j] = false end end end\n" \
	"  local words = {}\n" \
	"  for i = 1, 100 do words[#words + 1] = 'w' .. (i * round % 37) end\n" \
	"  table.sort(words)\n" \
	"  local text = table.concat(words, ' ')\n" \
	"  local found = 0\n" \
	"  for word in text:gmatch('%a(%d+)') do found = found + #word end\n" \
	"  local p, next = Point.new(round, 1), counter()\n" \
	"  for i = 1, 300 do p = p:add(Point.new(i, next())) end\n" \
	"  sum = (sum * 31 + primes + found + p.x + p.y + text:byte(round % #text + 1)) & 0xffffff\n" \
	"end\n" \
	"return sum & 127\n"
#endif

static const char script[] = SCRIPT;

/* Lua's own calls it when a script fails outside of a protected call, which this one cannot. */
void abort(void)
{
	__builtin_trap();
}

/* Size classes of powers of two over a fixed arena. */
static uint64_t arena[128 << 10];
static size_t arena_used;
static void *freed[32];

static int class_of(size_t size)
{
	int class = 4;
	while (((size_t)1 << class) < size)
		class++;
	return class;
}

static void *allocate(void *data, void *block, size_t old_size, size_t size)
{
	(void)data;
	int old_class = block ? class_of(old_size) : -1, class = class_of(size);
	void *fresh = NULL;
	if (block && size && old_class == class)
		return block;
	if (size && freed[class]) {
		fresh = freed[class];
		freed[class] = *(void **)fresh;
	} else if (size) {
		if (arena_used + ((size_t)1 << class) > sizeof arena)
			return NULL;
		fresh = (char *)arena + arena_used;
		arena_used += (size_t)1 << class;
	}
	if (fresh && block)
		memcpy(fresh, block, old_size < size ? old_size : size);
	if (block) {
		*(void **)block = freed[old_class];
		freed[old_class] = block;
	}
	return fresh;
}

/* `setmetatable` of the base library, the rest of which needs files. */
static int set_metatable(lua_State *lua)
{
	lua_settop(lua, 2);
	lua_setmetatable(lua, 1);
	return 1;
}

int main(int argc, char **argv)
{
	lua_State *lua = lua_newstate(allocate, NULL);
	if (!lua)
		return 101;
	luaL_requiref(lua, "table", luaopen_table, 1);
	luaL_requiref(lua, "string", luaopen_string, 1);
	lua_settop(lua, 0);
	lua_register(lua, "setmetatable", set_metatable);
#ifdef REGISTER
	REGISTER(lua);
#endif
	if (luaL_loadbufferx(lua, script, sizeof script - 1, "script", "t"))
		return 102;
	lua_pushinteger(lua, argument(argc, argv, 1));
	if (lua_pcall(lua, 1, 1, 0))
		return 103;
	return (int)lua_tointeger(lua, -1);
}
