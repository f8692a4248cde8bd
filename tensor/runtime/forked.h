// tensor/runtime/forked.h: what a process lacks that fork() has made: the threads of its parent,
// and the use of devices that the parent has used.
#pragma once

namespace moonlet {

// How many forks lie between this process and the one that loaded the library. Threads that were
// started under another number do not exist here.
extern constinit int forks;
inline int fork_generation() noexcept { return forks; }

}  // namespace moonlet
