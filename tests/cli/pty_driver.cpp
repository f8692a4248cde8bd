// tests/cli/pty_driver.cpp: runs a program on a pseudo-terminal and holds a dialogue with it.
// usage: pty-driver [--console] PROGRAM ARGS... <dialogue
// --console: the program draws with escape sequences, as Wine's console does around each character;
// the output is what is to be seen. Lines of the dialogue:
//   send TEXT     types TEXT; \r, \t, \e, \\ and \xNN are escapes
//   expect TEXT   waits until the output holds TEXT behind the last match
//   prompt        expects a new prompt (one drawn again, in a line that is edited, is none) and
//   waits
//                 until the editor has the terminal in raw mode
//   absent TEXT   fails when the output so far holds TEXT behind the last match
//   press COUNT   so often types a short command and, at some time within 4 ms, Ctrl-C; the program
//                 must be there after it
//   pause COUNT   waits so many seconds, for what is not to be seen
//   kill SIGNAL   sends the program the signal of that number
//   exit CODE     waits for the end of the program
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>
#include <thread>

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace {

constexpr auto kPatience = std::chrono::seconds(10);

std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'x') {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += c == 'r' ? '\r' : c == 't' ? '\t' : c == 'e' ? '\x1b' : c;
    }
  }
  return out;
}

class Dialogue {
 public:
  Dialogue(char** program, bool is_console) : is_console_(is_console) {
    pid_ = forkpty(&terminal_, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      setenv("TERM", "xterm", 1);
      execv(program[0], program);
      _exit(127);
    }
  }
  Dialogue(const Dialogue&) = delete;
  Dialogue& operator=(const Dialogue&) = delete;
  ~Dialogue() {
    if (pid_ > 0) kill(pid_, SIGKILL);
  }

  bool step(const std::string& line) {
    const size_t space = line.find(' ');
    const std::string verb = line.substr(0, space);
    const std::string text = space == line.npos ? "" : unescape(line.substr(space + 1));
    if (verb == "send") {
      return write(terminal_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    }
    if (verb == "expect") return expect(text);
    if (verb == "prompt") return prompt() && editor_reads();
    if (verb == "absent") return output_.find(text, matched_) == output_.npos;
    if (verb == "press") return press(std::stoi(text));
    if (verb == "pause") {
      std::this_thread::sleep_for(std::chrono::seconds(std::stoi(text)));
      return true;
    }
    if (verb == "kill") return kill(pid_, std::stoi(text)) == 0;
    if (verb == "exit") return ends(std::stoi(text));
    return verb.empty() || verb[0] == '#';
  }

  const std::string& output() const { return output_; }

 private:
  // Reads what there is; false at the end of the output or after the deadline.
  bool read_some(std::chrono::steady_clock::time_point deadline) {
    using std::chrono::milliseconds;
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{terminal_, POLLIN, 0};
    if (left.count() <= 0 || poll(&waiting, 1, static_cast<int>(left.count())) <= 0) return false;
    char block[4096];
    const ssize_t count = read(terminal_, block, sizeof block);
    if (count <= 0) return false;
    if (is_console_)
      draw({block, static_cast<size_t>(count)});
    else
      output_.append(block, static_cast<size_t>(count));
    return true;
  }

  // Leaves escape sequences out; moves to the right are spaces.
  void draw(const std::string& bytes) {
    for (const char c : bytes) {
      if (sequence_.empty() && c != '\x1b') {
        output_ += c;
        continue;
      }
      sequence_ += c;
      const bool ends =
          sequence_.size() > 2 ? c >= '@' && c <= '~' : sequence_.size() == 2 && c != '[';
      if (!ends) continue;
      if (c == 'C') output_.append(static_cast<size_t>(std::max(1, std::atoi(&sequence_[2]))), ' ');
      sequence_.clear();
    }
  }

  bool expect(const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      const size_t found = output_.find(text, matched_);
      if (found != output_.npos) {
        matched_ = found + text.size();
        return true;
      }
      if (!read_some(deadline)) return false;
    }
  }

  // Each line begins with bracketed paste switched on; a console's output has no such sequence.
  bool prompt() { return (is_console_ || expect("\x1b[?2004h")) && expect("> "); }

  // Keys typed before the editor is ready would be echoed and edited by the terminal instead.
  bool editor_reads() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      termios mode;
      if (tcgetattr(terminal_, &mode) != 0) return false;
      if ((mode.c_lflag & ICANON) == 0) return true;
      read_some(std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
    }
    return false;
  }

  bool press(int count) {
    constexpr char kCommand[] = "x = 1\r", kInterrupt = '\3';
    for (int i = 0; i < count; ++i) {
      if (write(terminal_, kCommand, sizeof kCommand - 1) < 0) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 4000));
      if (write(terminal_, &kInterrupt, 1) < 0) return false;
      read_some(std::chrono::steady_clock::now() + std::chrono::milliseconds(10));
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) != 0) return false;
    }
    return true;
  }

  bool ends(int code) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (read_some(deadline)) {
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return WIFEXITED(status) && WEXITSTATUS(status) == code;
  }

  const bool is_console_;
  std::string sequence_;  // what has come of one that is not whole
  std::minstd_rand random_;
  int terminal_ = -1;
  pid_t pid_ = 0;
  std::string output_;
  size_t matched_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const bool is_console = argc > 1 && std::string(argv[1]) == "--console";
  char** const program = argv + (is_console ? 2 : 1);
  if (program >= argv + argc) return 2;
  Dialogue dialogue(program, is_console);
  std::string line;
  for (int number = 1; std::getline(std::cin, line); ++number) {
    if (dialogue.step(line)) continue;
    std::printf("FAILED: line %d: %s\n--- output\n%s\n", number, line.c_str(),
                dialogue.output().c_str());
    return 1;
  }
  return 0;
}
