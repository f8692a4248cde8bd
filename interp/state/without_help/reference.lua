-- interp/state/without_help/reference.lua: what help() knows in a build with -Dhelp=false.
return {}
