// tests/plugins/wanted.cpp: a library that a plugin wants.
extern "C" int moonlet_wanted() { return 1; }
