// interp/distributed/file_store.cpp: a store in a file: a log of what keys were set to, which who
// reads or writes holds locked. Who waits looks at it from time to time.
#include "interp/distributed/file_store.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interp/distributed/bytes.h"
#include "interp/distributed/sockets.h"

namespace moonlet::distributed {
namespace {

constexpr std::string_view kHead = "MOONLET FILE 1\r\n";
constexpr uint8_t kSet = 1, kRemoved = 0;

class FileStore final : public Store {
 public:
  explicit FileStore(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (!file_.is_open())
      throw std::runtime_error("the file '" + path + "' cannot be opened: " + system_text(errno));
    locked({}, [] {});
  }

  void set(std::string_view key, std::string_view value, const Tick& tick) override {
    locked(tick, [&] { put(key, value); });
  }
  std::optional<std::string> get(std::string_view key, double seconds, const Tick& tick) override {
    if (!wait({std::string(key)}, seconds, tick)) return std::nullopt;
    const std::lock_guard<std::mutex> lock(mutex_);
    return values_[std::string(key)];
  }
  int64_t add(std::string_view key, int64_t amount, const Tick& tick) override;
  bool wait(const std::vector<std::string>& keys, double seconds, const Tick& tick) override;
  bool remove(std::string_view key, const Tick& tick) override;
  std::optional<std::string> compare_set(std::string_view key, std::string_view expected,
                                         std::string_view desired, const Tick& tick) override;
  int64_t count(const Tick& tick) override {
    int64_t out = 0;
    locked(tick, [&] { out = static_cast<int64_t>(values_.size()); });
    return out;
  }

 private:
  // Runs `f` while the file is this process's and all that is in it is known.
  template <class F>
  void locked(const Tick& tick, F f);
  void read_news();
  void put(std::string_view key, std::string_view value) { write(kSet, key, value); }
  void write(uint8_t kind, std::string_view key, std::string_view value);
  void append(std::string_view bytes);

  const std::string path_;
  std::mutex mutex_;
  Socket file_;
  uint64_t read_ = 0;  // bytes that are known
  std::map<std::string, std::string, std::less<>> values_;
};

template <class F>
void FileStore::locked(const Tick& tick, F f) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      throw std::runtime_error("the file '" + path_ + "' cannot be locked: " + system_text(errno));
    if (tick) tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  struct Unlocker {
    int file;
    ~Unlocker() { flock(file, LOCK_UN); }
  } unlocker{file_.descriptor()};
  read_news();
  f();
}

void FileStore::read_news() {
  struct stat info {};
  fstat(file_.descriptor(), &info);
  const auto size = static_cast<uint64_t>(info.st_size);
  if (size == 0) append(kHead);
  std::string news(size > read_ ? size - read_ : 0, '\0');
  size_t got = 0;
  while (got < news.size()) {
    const ssize_t more = pread(file_.descriptor(), news.data() + got, news.size() - got,
                               static_cast<off_t>(read_ + got));
    if (more <= 0) throw std::runtime_error("the file '" + path_ + "' cannot be read");
    got += static_cast<size_t>(more);
  }
  size_t at = 0;
  if (read_ == 0 && size > 0) {
    if (news.compare(0, kHead.size(), kHead) != 0)
      throw std::runtime_error("the file '" + path_ + "' is no store of this version of Moonlet");
    at = kHead.size();
  }
  while (at < news.size()) {
    Reader in(std::string_view(news).substr(at));
    try {
      const auto kind = in.number<uint8_t>();
      std::string key = in.text(), value = in.text();
      at += 1 + 4 + key.size() + 4 + value.size();
      if (kind == kSet)
        values_[std::move(key)] = std::move(value);
      else
        values_.erase(key);
    } catch (const std::exception&) {
      // A process was ended while it wrote: what it began was never there.
      if (ftruncate(file_.descriptor(), static_cast<off_t>(read_ + at)) != 0)
        throw std::runtime_error("the file '" + path_ + "' is damaged");
      break;
    }
  }
  read_ += at;
}

void FileStore::append(std::string_view bytes) {
  if (pwrite(file_.descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(read_)) !=
      static_cast<ssize_t>(bytes.size()))
    throw std::runtime_error("the file '" + path_ + "' cannot be written: " + system_text(errno));
  read_ += bytes.size();
}

void FileStore::write(uint8_t kind, std::string_view key, std::string_view value) {
  append(Writer().number(kind).text(key).text(value).bytes());
  if (kind == kSet)
    values_[std::string(key)] = value;
  else
    values_.erase(std::string(key));
}

int64_t FileStore::add(std::string_view key, int64_t amount, const Tick& tick) {
  int64_t sum = 0;
  locked(tick, [&] {
    const auto found = values_.find(key);
    try {
      sum = found != values_.end() ? std::stoll(found->second) : 0;
    } catch (const std::exception&) {
      throw std::runtime_error("the value to add to is no integer: '" +
                               found->second.substr(0, 40) + "'");
    }
    sum = static_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(amount));
    put(key, std::to_string(sum));
  });
  return sum;
}

bool FileStore::wait(const std::vector<std::string>& keys, double seconds, const Tick& tick) {
  const Clock::time_point until = after(seconds);
  for (;;) {
    bool there = true;
    locked(tick, [&] {
      for (const std::string& key : keys) there = there && values_.count(key) != 0;
    });
    if (there) return true;
    if (Clock::now() >= until) return false;
    if (tick) tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

bool FileStore::remove(std::string_view key, const Tick& tick) {
  bool there = false;
  locked(tick, [&] {
    there = values_.find(key) != values_.end();
    if (there) write(kRemoved, key, "");
  });
  return there;
}

std::optional<std::string> FileStore::compare_set(std::string_view key, std::string_view expected,
                                                  std::string_view desired, const Tick& tick) {
  std::optional<std::string> out;
  locked(tick, [&] {
    const auto found = values_.find(key);
    const bool there = found != values_.end();
    if (there ? found->second == expected : expected.empty()) {
      put(key, desired);
      out = std::string(desired);
    } else if (there) {
      out = found->second;
    }
  });
  return out;
}

}  // namespace

std::shared_ptr<Store> open_file_store(const std::string& path) {
  return std::make_shared<FileStore>(path);
}

}  // namespace moonlet::distributed
