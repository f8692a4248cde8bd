// tests/plugins/wants.cpp: a plugin that wants a library, and says nothing of itself.
extern "C" int moonlet_wanted();
extern "C" int moonlet_wants() { return moonlet_wanted(); }
