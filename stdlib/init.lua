-- stdlib/init.lua: says which module defines the fields of `ml` that are neither ops nor modules;
-- each module is loaded when one of its fields is first used. One that names itself is a module.

return {
  autocast = "modes",
  compile = "compile",
  describe = "describe",
  export = "program",
  from_file = "functions",
  histogramdd = "functions",
  is_tuple = "functions",
  items = "functions",
  json = "json",
  override = "modes",
  profile = "profiler",
  read_string = "serialize",
  save = "serialize",
  load = "serialize",
  load_string = "serialize",
  save_string = "serialize",
  tuple = "functions",
  vmap = "func",
  write_string = "serialize",
}
