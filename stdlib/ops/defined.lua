-- stdlib/ops/defined.lua: the ops that scripts of this interpreter have defined: what `help` says
-- of them, and what captured functions watch of them.

local defined = {}

--- Entries as those of the reference, by name.
defined.entries = {}
--- The functions of the scripts that the ops run, by name: a compiled function is captured again
--- when they, or what they read, change.
defined.functions = {}
--- What else captured functions watch, by name: numbers that count changes of what the library
--- keeps.
defined.watched = { process_groups = 0 }
--- The tables of libraries, `ml.ops.mylib`, as a set.
defined.spaces = {}
--- Where each was defined: "train.lua:12".
defined.lines = {}
--- The definitions, by name and by the function that calls the op.
defined.ops, defined.by_function = {}, {}

return defined
