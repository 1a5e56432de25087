/* Lua 5.4 as in lua.c, running a script whose every round catches errors: of calls in calls, of the
 * standard library. Exits with what it returns. */
#include <lua.h>

/* `error` and `pcall` of the base library. */
static int throw(lua_State *lua)
{
	lua_settop(lua, 1);
	return lua_error(lua);
}

static int protected_call(lua_State *lua)
{
	lua_pushboolean(lua, 1);
	lua_insert(lua, 1);
	int status = lua_pcall(lua, lua_gettop(lua) - 2, LUA_MULTRET, 0);
	if (status) {
		lua_pushboolean(lua, 0);
		lua_insert(lua, -2);
		return 2;
	}
	return lua_gettop(lua);
}

#define REGISTER(lua) (lua_register(lua, "error", throw), lua_register(lua, "pcall", protected_call))
#define SCRIPT \
	"local rounds = ...\n" \
	"local sum = 0\n" \
	"local function deep(n) if n == 0 then error({code = sum & 7}) end return deep(n - 1) + 1 end\n" \
	"for round = 1, rounds do\n" \
	"  for i = 1, 2000 do sum = (sum * 31 + i) & 0xffffff end\n" \
	"  local ok, what = pcall(deep, round % 17)\n" \
	"  sum = sum + (ok and 1 or what.code)\n" \
	"  local inner = function() local ok, what = pcall(string.rep) error(what) end\n" \
	"  local ok, what = pcall(inner)\n" \
	"  sum = sum + #what\n" \
	"  ok, what = pcall(function() return nil + 1 end)\n" \
	"  sum = (sum * 31 + #what) & 0xffffff\n" \
	"end\n" \
	"return sum & 127\n"
#include "lua.c"
