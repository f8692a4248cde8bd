// interp/cli/cli.cpp: options, scripts and exit codes, as Lua's own command line has them.
#include "interp/cli/cli.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "interp/cli/own_bundle.h"
#include "interp/cli/repl.h"
#include "interp/cli/report.h"
#include "interp/modules/modules.h"
#include "interp/state/chunks.h"
#include "interp/state/guard.h"
#include "interp/state/interrupt.h"
#include "interp/state/state.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/platform/process.h"

namespace moonlet {
namespace {

constexpr const char* kProgram = "moonlet";

constexpr const char* kUsage =
    "usage: moonlet [options] [script [args]]\n"
    "       moonlet doc [NAME | --search WORD]\n"
    "       moonlet bundle script [files] -o app   (see moonlet bundle --help)\n"
    "       moonlet launch -n N script [args]          (see moonlet launch --help)\n"
    "       moonlet convert model.t7 model.safetensors\n"
    "  -e stat        execute string 'stat'\n"
    "  -i             enter interactive mode after executing 'script'\n"
    "  -l mod         require library 'mod' into global 'mod'\n"
    "  -l g=mod       require library 'mod' into global 'g'\n"
    "  -v, --version  show version information\n"
    "  -h, --help     show this text\n"
    "  -E             ignore environment variables\n"
    "  -W             turn warnings on\n"
    "  --record-ops FILE  write the ops that the script has called to FILE, for -Dops\n"
    "  --torch7       run a script of Torch7: its modules, and what Lua 5.1 had\n"
    "  --bytecode     load compiled chunks, too, which may crash when tampered with\n"
    "  --             stop handling options\n"
    "  -              stop handling options and execute stdin\n"
    "doc shows the reference: of NAME, or the names that WORD leads to.\n"
    "Without arguments: a prompt on a terminal, else the script on standard input.\n";

struct Action {
  char option;  // 'e', 'l' or 'W'
  const char* text;
};

struct Arguments {
  std::vector<Action> actions;
  bool interactive = false;
  bool version = false;
  bool help = false;
  bool executes = false;  // has -e
  bool ignore_environment = false;
  bool bytecode = false;
  const char* record_ops = nullptr;  // the file to write
  bool after_dashes = false;         // the script name follows "--", so "-" is a file
  int script = 0;                    // its index in argv; argc when there is none
  const char* bad = nullptr;
};

// Handles a long option or one that takes no value. Returns false for an unknown one.
bool parse_flag(const char* text, Arguments* out) {
  const std::string option(text);
  if (option == "-i") {
    out->interactive = true;
  } else if (option == "-v" || option == "--version") {
    out->version = true;
  } else if (option == "-h" || option == "--help") {
    out->help = true;
  } else if (option == "-E") {
    out->ignore_environment = true;
  } else if (option == "--bytecode") {
    out->bytecode = true;
  } else if (option == "--torch7") {
    out->actions.push_back({'l', "torch=moonlet.torch7.lua51"});
  } else if (option == "-W") {
    out->actions.push_back({'W', nullptr});
  } else {
    return false;
  }
  return true;
}

Arguments parse(int argc, char** argv) {
  Arguments out;
  int i = 1;
  for (; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; ++i) {
    const char* text = argv[i];
    if (std::strcmp(text, "--") == 0) {
      out.after_dashes = true;
      ++i;
      break;
    }
    if (std::strcmp(text, "--record-ops") == 0) {
      if (i + 1 >= argc) {
        out.bad = text;
        break;
      }
      out.record_ops = argv[++i];
    } else if (text[1] == 'e' || text[1] == 'l') {
      const char* value = text[2] != '\0' ? text + 2 : (i + 1 < argc ? argv[++i] : nullptr);
      if (value == nullptr) {
        out.bad = text;
        break;
      }
      out.executes = out.executes || text[1] == 'e';
      out.actions.push_back({text[1], value});
    } else if (!parse_flag(text, &out)) {
      out.bad = text;
      break;
    }
  }
  out.script = i;
  return out;
}

void print_version() { std::printf("Moonlet %s (%s)\n", version(), LUA_RELEASE); }

// For other processes that hear of the end of this one.
void note_failure(lua_State* L, const char* message) {
  lua_pushstring(L, message != nullptr ? message : "an error that is no string");
  lua_setfield(L, LUA_REGISTRYINDEX, kScriptFailure);
}

// True when the status is LUA_OK; otherwise shows the error.
bool succeeded(lua_State* L, int status) {
  if (status != LUA_OK) {
    note_failure(L, lua_tostring(L, -1));
    report_error(L, kProgram);
  }
  return status == LUA_OK;
}

// Runs the chunk on top of the stack, or shows the error that compiling it gave.
bool run_chunk(lua_State* L, int status, int arguments = 0) {
  if (status == LUA_OK) status = call_interruptible(L, arguments, 0);
  return succeeded(L, status);
}

bool run_code(lua_State* L, const char* code, const char* name) {
  return run_chunk(L, luaL_loadbufferx(L, code, std::strlen(code), name, "t"));
}

bool require_library(lua_State* L, const std::string& text) {
  const size_t equals = text.find('=');
  const std::string global = text.substr(0, equals);
  const std::string name = equals == text.npos ? text : text.substr(equals + 1);
  lua_getglobal(L, "require");
  lua_pushstring(L, name.c_str());
  if (!succeeded(L, call_interruptible(L, 1, 1))) return false;
  lua_setglobal(L, global.c_str());
  return true;
}

bool run_actions(lua_State* L, const Arguments& arguments) {
  for (const Action& action : arguments.actions) {
    bool good = true;
    if (action.option == 'W') {
      set_warnings(L, true);
    } else if (action.option == 'e') {
      good = run_code(L, action.text, "=(command line)");
    } else {
      good = require_library(L, action.text);
    }
    if (!good) return false;
  }
  return true;
}

// LUA_INIT_5_4 or LUA_INIT: code, or a file after '@'.
bool run_init(lua_State* L) {
  const char* name = "=LUA_INIT" LUA_VERSUFFIX;
  const char* found = platform::variable(name + 1);
  if (found == nullptr) found = platform::variable((name = "=LUA_INIT") + 1);
  if (found == nullptr) return true;
  const std::string text = found;  // the code may ask for other variables
  const char* const init = text.c_str();
  return init[0] == '@' ? run_chunk(L, load_file(L, init + 1)) : run_code(L, init, name);
}

// Modules beside the script are found wherever it is run from, and before others of their name. A
// folder whose name has a mark of Lua's templates cannot be on the path.
void search_beside(lua_State* L, std::string_view script) {
  const size_t slash = platform::last_separator(script);
  if (slash == script.npos) return;  // "./?.lua" is on the path
  const std::string folder(script.substr(0, slash + 1));
  if (folder.find_first_of(";?") != folder.npos) return;
  const int top = lua_gettop(L);
  if (lua_getglobal(L, "package") == LUA_TTABLE && lua_getfield(L, -1, "path") == LUA_TSTRING) {
    const std::string path = folder + "?.lua;" + folder + "?/init.lua;" + lua_tostring(L, -1);
    lua_pushlstring(L, path.data(), path.size());
    lua_setfield(L, -3, "path");
  }
  lua_settop(L, top);
}

void append_path(lua_State* L, const char* field, const std::string& added) {
  const int top = lua_gettop(L);
  if (lua_getglobal(L, "package") == LUA_TTABLE && lua_getfield(L, -1, field) == LUA_TSTRING) {
    const std::string path = lua_tostring(L, -1) + (";" + added);
    lua_pushlstring(L, path.data(), path.size());
    lua_setfield(L, -3, field);
  }
  lua_settop(L, top);
}

// What `luarocks install --local` has installed is found behind all else; what it installs for the
// machine is on Lua's own paths.
void search_rocks(lua_State* L) {
  const std::string tree = platform::user_rocks();
  if (tree.empty() || tree.find_first_of(";?") != tree.npos) return;
  const std::string lua = tree + "share/lua/" LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "/";
  const std::string c = tree + "lib/lua/" LUA_VERSION_MAJOR "." LUA_VERSION_MINOR "/";
  if (platform::is_readable(lua)) append_path(L, "path", lua + "?.lua;" + lua + "?/init.lua");
  if (platform::is_readable(c)) append_path(L, "cpath", c + "?.so");
}

// The function that runs a script and writes its ops to the file, and its first argument.
bool push_recorder(lua_State* L, const char* file) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonlet.record_ops");
  if (!succeeded(L, call_interruptible(L, 1, 1))) return false;
  lua_getfield(L, -1, "run");
  lua_remove(L, -2);
  lua_pushstring(L, file);
  return true;
}

// Without a script among the arguments: what is on standard input.
bool run_script(lua_State* L, const Arguments& arguments, int argc, char** argv) {
  const bool is_named = arguments.script < argc;
  const char* const path = is_named ? argv[arguments.script] : nullptr;
  const bool from_stdin = !is_named || (std::strcmp(path, "-") == 0 && !arguments.after_dashes);
  if (!from_stdin) search_beside(L, path);
  int before = 0;  // arguments of the function that runs the script
  if (arguments.record_ops != nullptr) {
    if (!push_recorder(L, arguments.record_ops)) return false;
    before = 2;
  }
  const int status = load_file(L, from_stdin ? nullptr : path);
  if (status != LUA_OK) return succeeded(L, status);
  const int count = is_named ? argc - arguments.script - 1 : 0;
  luaL_checkstack(L, count + 3, "too many arguments to script");
  for (int i = 1; i <= count; ++i) lua_pushstring(L, argv[arguments.script + i]);
  return run_chunk(L, LUA_OK, before + count);
}

// The script of this executable's bundle, with all arguments.
bool run_bundle(lua_State* L, int argc, char** argv) {
  const int status = load_file(L, io::own_bundle()->main()->name.c_str());
  if (status != LUA_OK) return succeeded(L, status);
  luaL_checkstack(L, argc + 2, "too many arguments to script");
  for (int i = 1; i < argc; ++i) lua_pushstring(L, argv[i]);
  return run_chunk(L, LUA_OK, argc - 1);
}

// Global `arg`: the script at 0, its arguments above, the executable and its options below.
void set_arg(lua_State* L, int argc, char** argv, int script) {
  const int zero = script < argc ? script : 0;
  lua_createtable(L, argc - zero, zero + 1);
  for (int i = 0; i < argc; ++i) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - zero);
  }
  lua_setglobal(L, "arg");
}

// os.exit closes the state unless told not to, so that files are flushed and tensors freed.
int exit_closing(lua_State* L) {
  const int code = lua_isboolean(L, 1) ? (lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE)
                                       : static_cast<int>(luaL_optinteger(L, 1, EXIT_SUCCESS));
  leave_interrupts();
  if (code != EXIT_SUCCESS) note_failure(L, text("os.exit(", code, ")").c_str());
  if (lua_gettop(L) < 2 || lua_toboolean(L, 2)) StateCloser()(L);
  std::exit(code);
}

void wrap_exit(lua_State* L) {
  lua_getglobal(L, LUA_OSLIBNAME);
  lua_pushcfunction(L, exit_closing);
  lua_setfield(L, -2, "exit");
  lua_pop(L, 1);
}

// `moonlet doc ...`: the words behind `doc` go to the command of a module, which says whether it
// succeeded. A script of that name is `./doc`.
bool run_command(lua_State* L, const char* module, int argc, char** argv) {
  lua_getglobal(L, "require");
  lua_pushstring(L, module);
  if (!succeeded(L, call_interruptible(L, 1, 1))) return false;
  lua_getfield(L, -1, "command");
  lua_createtable(L, argc, 0);
  for (int i = 2; i < argc; ++i) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - 1);
  }
  if (!succeeded(L, call_interruptible(L, 1, 1))) return false;
  return lua_toboolean(L, -1) != 0;
}

// The module of the command that the first word names; null where it names none.
const char* command_module(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "doc") == 0) return "moonlet.help";
  if (argc > 1 && std::strcmp(argv[1], "bundle") == 0) return "moonlet.bundle";
  if (argc > 1 && std::strcmp(argv[1], "launch") == 0) return "moonlet.distributed.launch";
  if (argc > 1 && std::strcmp(argv[1], "convert") == 0) return "moonlet.convert";
  return nullptr;
}

struct Invocation {
  const Arguments& arguments;
  int argc;
  char** argv;
  bool succeeded;
};

// Whether a prompt is among what the arguments ask for.
bool wants_prompt(const Arguments& arguments, int argc, char** argv) {
  if (arguments.interactive) return true;
  return arguments.script >= argc && !arguments.executes && !arguments.version &&
         command_module(argc, argv) == nullptr && platform::is_terminal(0);
}

bool run_arguments(lua_State* L, const Arguments& arguments, int argc, char** argv) {
  const bool has_script = arguments.script < argc;
  if (!arguments.ignore_environment) {
    search_rocks(L);
    if (!run_init(L)) return false;
  }
  if (!run_actions(L, arguments)) return false;
  if (has_script && !run_script(L, arguments, argc, argv)) return false;
  if (arguments.interactive) {
    run_repl(L, platform::is_terminal(0));
  } else if (!has_script && !arguments.executes && !arguments.version) {
    if (platform::is_terminal(0)) {
      run_repl(L, true);
    } else {
      return run_script(L, arguments, argc, argv);
    }
  }
  return true;
}

int protected_main(lua_State* L) {
  auto& invocation = *static_cast<Invocation*>(lua_touserdata(L, 1));
  const auto& [arguments, argc, argv, ignored] = invocation;
  lua_settop(L, 0);
  if (arguments.version) print_version();
  wrap_exit(L);
  set_arg(L, argc, argv, io::own_bundle() != nullptr ? 0 : arguments.script);
  const char* const command = command_module(argc, argv);
  if (io::own_bundle() != nullptr)
    invocation.succeeded = run_bundle(L, argc, argv);
  else if (command != nullptr)
    invocation.succeeded = run_command(L, command, argc, argv);
  else
    invocation.succeeded = run_arguments(L, arguments, argc, argv);
  return 0;
}

// --record-ops is for one script, a file or what is on standard input.
bool records_no_script(const Arguments& arguments, int argc) {
  if (arguments.record_ops == nullptr || arguments.script < argc) return false;
  return arguments.executes || arguments.interactive || arguments.version ||
         platform::is_terminal(0);
}

int refuse(const Arguments& arguments) {
  const bool needs_value = arguments.bad[1] == 'e' || arguments.bad[1] == 'l' ||
                           std::strcmp(arguments.bad, "--record-ops") == 0;
  const char* reason = needs_value ? "a value is missing after" : "unrecognized option";
  std::fprintf(stderr, "%s: %s '%s'\n%s", kProgram, reason, arguments.bad, kUsage);
  return EXIT_FAILURE;
}

}  // namespace

int run_cli(int argc, char** argv) {
  try {
    const bool bundled = has_own_bundle();
    if (bundled) io::set_own_bundle(open_own_bundle(text("'", argc > 0 ? argv[0] : "", "'")));
    const Arguments arguments = bundled ? Arguments() : parse(argc, argv);
    if (arguments.bad != nullptr) return refuse(arguments);
    if (arguments.help) {
      std::fputs(kUsage, stdout);
      return EXIT_SUCCESS;
    }
    if (records_no_script(arguments, argc)) {
      std::fprintf(stderr, "%s: a script is missing behind '--record-ops %s'\n%s", kProgram,
                   arguments.record_ops, kUsage);
      return EXIT_FAILURE;
    }
    if (!bundled && wants_prompt(arguments, argc, argv)) keep_prompt_alive();
    InterpreterOptions options;
    // A bundle does the same wherever it runs.
    options.environment = !bundled && !arguments.ignore_environment;
    options.bytecode = arguments.bytecode;
    const StatePtr state = new_state(std::move(options));
    const EntryScope entry(state_data(state.get()));
    Invocation invocation{arguments, argc, argv, false};
    lua_pushcfunction(state.get(), guard<protected_main>);
    lua_pushlightuserdata(state.get(), &invocation);
    if (lua_pcall(state.get(), 1, 0, 0) != LUA_OK) report_error(state.get(), kProgram);
    leave_interrupts();
    return invocation.succeeded ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", kProgram, e.what());
    return EXIT_FAILURE;
  }
}

}  // namespace moonlet
