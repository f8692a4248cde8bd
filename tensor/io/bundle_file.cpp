// tensor/io/bundle_file.cpp: bundles in files and in memory, and how they are written.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>

#include "tensor/core/error.h"
#include "tensor/core/platform/files.h"
#include "tensor/core/storage.h"
#include "tensor/cpu/common/parallel.h"
#include "tensor/io/bundle_layout.h"
#include "tensor/io/files.h"
#include "tensor/runtime/plugin_paths.h"

namespace moonlet::io {
namespace {

// --- sources -------------------------------------------------------------------------------------

class FileSource : public BundleSource {
 public:
  FileSource(const std::string& path, const char* op) : FileSource(InputFile(path, op)) {}
  uint64_t size() const override { return size_; }
  int descriptor() const override { return file_.get(); }
  void read(uint64_t at, void* out, size_t count) const override {
    char* to = static_cast<char*>(out);
    while (count > 0) {
      const int64_t got = platform::read_at(file_.get(), to, count, at);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(std::strerror(errno));
      if (got == 0) fail("it became shorter while it was read");
      to += got;
      at += static_cast<uint64_t>(got);
      count -= static_cast<size_t>(got);
    }
  }

 private:
  explicit FileSource(InputFile file) : size_(file.size()), file_(file.release()) {}
  const uint64_t size_;
  const Descriptor file_;
};

// A file that a process runs, which for so long nobody can write to or cut off: its pages are read
// where they are.
class RunningSource final : public FileSource {
 public:
  RunningSource(const std::string& path, const char* op) : FileSource(path, op) {
    bytes_ = static_cast<size_t>(size());
    pages_ = platform::map_part(descriptor(), 0, bytes_);
  }
  ~RunningSource() override {
    if (pages_ != nullptr) platform::unmap(pages_, bytes_);
  }
  const char* in_memory(uint64_t at, size_t count) const override {
    if (pages_ == nullptr || at > bytes_ || count > bytes_ - at) return nullptr;
    return static_cast<const char*>(pages_) + at;
  }

 private:
  size_t bytes_ = 0;
  void* pages_ = nullptr;
};

class MemorySource final : public BundleSource {
 public:
  explicit MemorySource(std::string_view bytes)
      : bytes_(bytes),
        behind_(platform::file_behind(bytes.data(), bytes.size())),
        file_(behind_.file) {}
  uint64_t size() const override { return bytes_.size(); }
  int descriptor() const override { return file_.get(); }
  uint64_t begin() const override { return behind_.at; }
  void read(uint64_t at, void* out, size_t count) const override {
    if (at > bytes_.size() || count > bytes_.size() - at) fail("it is cut off");
    if (count > 0) std::memcpy(out, bytes_.data() + at, count);
  }
  const char* in_memory(uint64_t at, size_t count) const override {
    return at > bytes_.size() || count > bytes_.size() - at ? nullptr : bytes_.data() + at;
  }

 private:
  const std::string_view bytes_;
  const platform::FileBehind behind_;
  const Descriptor file_;
};

// --- finding the header --------------------------------------------------------------------------

struct FoundHeader {
  BundleHeader header;
  bool is_there = false;
  bool has_mark = false;  // of an executable that can have a bundle, or of a damaged one
  uint64_t position = 0;
};

// The next position of a mark, from `from` on; the size where there is none.
uint64_t next_mark(const BundleSource& source, uint64_t from) {
  const BundleHeader empty = empty_bundle_header();
  const std::string_view mark(empty.mark, sizeof empty.mark);
  constexpr size_t kPiece = size_t{1} << 20;
  std::string piece;
  const uint64_t size = source.size();
  while (size - from >= mark.size()) {
    piece.resize(static_cast<size_t>(std::min<uint64_t>(kPiece, size - from)));
    source.read(from, piece.data(), piece.size());
    const size_t found = piece.find(mark);
    if (found != piece.npos) return from + found;
    if (piece.size() < kPiece) break;
    from += kPiece - (mark.size() - 1);
  }
  return size;
}

// A header may also lie in a file that is bundled: the one that counts says where it is.
FoundHeader find_header(const BundleSource& source) {
  FoundHeader out;
  const uint64_t size = source.size();
  for (uint64_t at = 0; (at = next_mark(source, at)) < size; ++at) {
    if (size - at < sizeof out.header) break;
    BundleHeader header;
    source.read(at, &header, sizeof header);
    if (header.is_whole() && header.position == at) return {header, true, true, at};
    if (!out.has_mark) out = {header, false, true, at};
  }
  return out;
}

std::shared_ptr<Bundle> open_source(std::unique_ptr<BundleSource> source,
                                    const std::string& title) {
  FoundHeader found;
  try {
    found = find_header(*source);
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& e) {
    fail(title, ": ", e.what());
  }
  check(found.is_there || !found.has_mark || found.header.is_empty(), title,
        " is damaged: its header at ", found.position, " is not what was written");
  check(found.is_there, title, ": there is no bundle in it, or its header is damaged");
  return std::make_shared<Bundle>(std::move(source), found.header, title);
}

}  // namespace

std::shared_ptr<Bundle> open_bundle(const std::string& path, const char* op) {
  return open_source(std::make_unique<FileSource>(path, op), text(op, ": '", path, "'"));
}

std::shared_ptr<Bundle> bundle_in_memory(std::string_view bytes, const std::string& title) {
  return open_source(std::make_unique<MemorySource>(bytes), title);
}

std::shared_ptr<Bundle> bundle_of_executable(const BundleHeader& header, const std::string& path,
                                             const std::string& title) {
  return std::make_shared<Bundle>(std::make_unique<RunningSource>(path, "bundle"), header, title);
}

namespace {
std::shared_ptr<const Bundle>& own() noexcept {
  static auto* const it = new std::shared_ptr<const Bundle>;  // files may be read until the end
  return *it;
}

// A path of the plugin in the executable's bundle, which is a copy in memory, as the loader opens
// what is named alone; empty where there is none.
std::string path_of_plugin(const std::string& file) {
  const std::shared_ptr<const Bundle>& bundle = own();
  const BundleEntry* entry = bundle != nullptr ? bundle->find(file) : nullptr;
  if (entry == nullptr || entry->kind != BundleKind::Plugin) return {};
  static std::mutex mutex;
  static std::map<std::string, std::string> opened;
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = opened.find(file);
  if (found != opened.end()) return found->second;
  BundleFiles files(bundle);
  const FileSystemScope scope(&files);
  const int copy = InputFile(file, "plugin").release();  // open as long as the plugin is
  return opened[file] = text("/proc/self/fd/", copy);
}
}  // namespace

const std::shared_ptr<const Bundle>& own_bundle() noexcept { return own(); }
void set_own_bundle(std::shared_ptr<const Bundle> bundle) {
  own() = std::move(bundle);
  bundled_plugin = path_of_plugin;
}

// --- writing -------------------------------------------------------------------------------------

namespace {

// Bytes that are mapped, or those of a string.
class InputBytes {
 public:
  explicit InputBytes(const BundleInput& input) {
    bytes_ = input.bytes;
    if (input.path.empty()) return;
    storage_ = Storage::map_file(input.path);
    if (storage_->bytes() > 0) bytes_ = {storage_->data(), storage_->bytes()};
  }
  ~InputBytes() {
    if (storage_ != nullptr) storage_->release();
  }
  InputBytes(const InputBytes&) = delete;
  InputBytes& operator=(const InputBytes&) = delete;
  std::string_view view() const { return bytes_; }

 private:
  std::string_view bytes_;
  Storage* storage_ = nullptr;
};

struct Section {
  std::string_view bytes;
  uint64_t at = 0, stored = 0;
  std::string padding, digests;
};

// Where each begins, and how many zero bytes lie before the next one.
void lay_out(std::vector<Section>& sections) {
  uint64_t at = 0;
  for (size_t i = 0; i < sections.size(); ++i) {
    Section& section = sections[i];
    section.at = at;
    at += section.bytes.size();
    if (i + 1 < sections.size()) {
      constexpr uint64_t kSmall = 64;
      const uint64_t next =
          sections[i + 1].bytes.size() >= kBundleAlignment ? kBundleAlignment : kSmall;
      at = (at + next - 1) / next * next;
    }
    section.stored = at - section.at;
    section.padding.assign(static_cast<size_t>(section.stored - section.bytes.size()), '\0');
  }
}

void hash_blocks(Section& section) {
  const auto blocks = static_cast<int64_t>(layout::blocks_of(section.stored));
  section.digests.resize(static_cast<size_t>(blocks) * sizeof(Digest));
  cpu::parallel_for(blocks, layout::kPairsOfThread, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const size_t from = static_cast<size_t>(i) * kBundleBlock;
      const auto count =
          static_cast<size_t>(std::min<uint64_t>(kBundleBlock, section.stored - from));
      std::string block(section.bytes.substr(std::min(from, section.bytes.size()), count));
      block.resize(count, '\0');
      const Digest digest = sha256(block);
      std::memcpy(section.digests.data() + static_cast<size_t>(i) * sizeof digest, digest.data(),
                  sizeof digest);
    }
  });
}

template <class T>
void append(std::string& out, T number) {
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string index_of(const std::vector<Section>& sections, const std::vector<BundleInput>& inputs) {
  std::string out;
  append(out, layout::kVersion);
  for (size_t i = 0; i < sections.size(); ++i) {
    const std::string& name = i == 0 ? std::string("front") : inputs[i - 1].name;
    append(out, static_cast<uint32_t>(i == 0 ? BundleKind::Front : inputs[i - 1].kind));
    append(out, static_cast<uint32_t>(name.size()));
    append(out, uint64_t{sections[i].bytes.size()});
    append(out, sections[i].stored);
    out += name;
    out += sections[i].digests;
  }
  return out;
}

template <class T>
T number_at(const std::string& bytes, size_t at) {
  T out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

// Where the last segment of an ELF file ends, which is all that is loaded of it: behind it are the
// names of symbols. Its size for what is no such file.
size_t end_of_segments(const std::string& bytes) {
  constexpr size_t kHead = 64, kSegment = 56;
  if (bytes.size() < kHead || !bytes.starts_with("\x7f"
                                                 "ELF\2\1"))
    return bytes.size();
  const auto table = number_at<uint64_t>(bytes, 32);
  const auto width = number_at<uint16_t>(bytes, 54), count = number_at<uint16_t>(bytes, 56);
  if (width < kSegment || table > bytes.size() || uint64_t{width} * count > bytes.size() - table)
    return bytes.size();
  uint64_t end = table + uint64_t{width} * count;
  for (size_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(table) + i * width;
    const auto offset = number_at<uint64_t>(bytes, at + 8);
    const auto size = number_at<uint64_t>(bytes, at + 32);
    if (offset > bytes.size() || size > bytes.size() - offset) return bytes.size();
    end = std::max(end, offset + size);
  }
  return static_cast<size_t>(end);
}

// Takes away what is not loaded.
void strip(std::string& bytes, uint64_t position) {
  const size_t end = end_of_segments(bytes);
  if (end == bytes.size() || position + sizeof(BundleHeader) > end) return;
  bytes.resize(end);
  constexpr size_t kTableOfSections = 40, kCounts = 60;
  std::memset(bytes.data() + kTableOfSections, 0, 8);
  std::memset(bytes.data() + kCounts, 0, 4);
}

// The bytes before the files, with zeroes for the header, and where that is.
std::string front_of(const std::string& executable, uint64_t& position, const char* op) {
  position = 0;
  if (executable.empty()) return std::string(sizeof(BundleHeader), '\0');
  const FileSource source(executable, op);
  const FoundHeader found = find_header(source);
  check(!found.is_there, op, ": '", executable, "' has a bundle already");
  check(found.has_mark && found.header.is_empty(), op, ": '", executable,
        "' is no executable of moonlet's");
  position = found.position;
  std::string out(static_cast<size_t>(source.size()), '\0');
  source.read(0, out.data(), out.size());
  strip(out, position);
  layout::clear_header(out, 0, position);
  return out;
}

void check_names(const std::vector<BundleInput>& inputs, const char* op) {
  std::map<std::string_view, int> seen;
  for (const BundleInput& input : inputs) {
    check(layout::is_name(input.name), op, ": expected a path inside the bundle, got '", input.name,
          "'");
    check(seen[input.name]++ == 0, op, ": '", input.name, "' is given twice");
  }
}

void make_executable(const std::string& path) {
  using std::filesystem::perms;
  const perms before = std::filesystem::status(path).permissions();
  perms added = perms::owner_exec;
  if ((before & perms::group_read) != perms::none) added |= perms::group_exec;
  if ((before & perms::others_read) != perms::none) added |= perms::others_exec;
  std::filesystem::permissions(path, added, std::filesystem::perm_options::add);
}

}  // namespace

void write_bundle(const std::string& path, const std::string& executable,
                  const std::vector<BundleInput>& inputs, const char* op) {
  check_names(inputs, op);
  uint64_t position = 0;
  const std::string front = front_of(executable, position, op);
  std::vector<std::unique_ptr<InputBytes>> bytes;
  std::vector<Section> sections(1);
  sections[0].bytes = front;
  for (const BundleInput& input : inputs) {
    bytes.push_back(std::make_unique<InputBytes>(input));
    sections.emplace_back().bytes = bytes.back()->view();
  }
  lay_out(sections);
  for (Section& section : sections) hash_blocks(section);
  const std::string index = index_of(sections, inputs);

  BundleHeader header = empty_bundle_header();
  header.position = position;
  header.index_at = sections.back().at + sections.back().stored;
  header.index_bytes = index.size();
  header.total = header.index_at + index.size();
  header.index_digest = sha256(index);
  layout::close_header(header);

  const std::string_view all = front;
  const auto at = static_cast<size_t>(position);
  std::vector<std::string_view> parts{all.substr(0, at),
                                      {reinterpret_cast<const char*>(&header), sizeof header},
                                      all.substr(at + sizeof header)};
  for (size_t i = 0; i < sections.size(); ++i) {
    if (i > 0) parts.push_back(sections[i].bytes);
    parts.push_back(sections[i].padding);
  }
  parts.push_back(index);
  write_file(path, parts, op);
  if (!executable.empty()) make_executable(path);
}

}  // namespace moonlet::io
