// tests/cpp/files/bundle_test.cpp: bundles that nobody vouches for.
#include "tests/cpp/catch2.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "tensor/core/error.h"
#include "tensor/io/bundle_layout.h"
#include "tests/cpp/messages.h"

using namespace moonlet;
namespace fs = std::filesystem;

namespace {

struct Folder {
  std::string path = (fs::temp_directory_path() / "moonlet-bundle-XXXXXX").string();
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { fs::remove_all(path); }
  std::string of(const std::string& name) const { return path + "/" + name; }
};

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A bundle of two scripts, and a file of more than one block.
std::string sample(const Folder& folder) {
  const std::string path = folder.of("sample.bundle");
  io::write_bundle(path, "",
                   {{"main.lua", io::BundleKind::Main, "", "return (require 'part.one') + 1"},
                    {"part/one.lua", io::BundleKind::Script, "", "return 41"},
                    {"w", io::BundleKind::File, "", std::string(160000, 'w')},
                    {"empty", io::BundleKind::File, "", ""}},
                   "test");
  return path;
}

// The header and the index of a bundle by itself.
io::BundleHeader header_of(const std::string& bytes) {
  io::BundleHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

// With another index, whose hash is right.
std::string with_index(const std::string& bytes, const std::string& index) {
  io::BundleHeader header = header_of(bytes);
  header.index_bytes = index.size();
  header.total = header.index_at + index.size();
  header.index_digest = io::sha256(index);
  io::layout::close_header(header);
  std::string out = bytes.substr(0, header.index_at) + index;
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

void use(const std::string& bytes) {
  try {
    const auto bundle = io::bundle_in_memory(bytes, "it");
    for (const io::BundleEntry& entry : bundle->entries())
      static_cast<void>(bundle->bytes_of(entry));
  } catch (const Error&) {
  }
}

}  // namespace

TEST_CASE("every byte of a bundle belongs to a hash") {
  const Folder folder;
  const std::string path = folder.of("small");
  io::write_bundle(
      path, "",
      {{"a", io::BundleKind::Main, "", "return 1"}, {"b", io::BundleKind::File, "", "xyz"}},
      "test");
  const std::string bytes = read(path);
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (const int bit : {1, 128}) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(changed[i] ^ bit);
      CHECK_THROWS_AS(
          [&] {
            const auto bundle = io::bundle_in_memory(changed, "it");
            for (const io::BundleEntry& entry : bundle->entries()) bundle->verify(entry);
          }(),
          Error);
    }
  }
}

TEST_CASE("numbers of an index that cannot be are refused") {
  const Folder folder;
  const std::string bytes = read(sample(folder));
  const std::string index = bytes.substr(header_of(bytes).index_at);
  const auto refused = [&](size_t at, uint64_t value, size_t width, const char* reason) {
    std::string changed = index;
    std::memcpy(changed.data() + at, &value, width);
    const std::string said =
        message_of([&] { io::bundle_in_memory(with_index(bytes, changed), "it"); });
    INFO(said);
    CHECK(said.find(reason) != std::string::npos);
  };
  refused(0, 9, 4, "it is of version 9");
  refused(4, 77, 4, "an entry of kind 77");
  refused(8, 0xffffffff, 4, "a name of 4294967295 bytes");
  refused(12, ~uint64_t{0}, 8, "where it has");
  refused(20, ~uint64_t{0}, 8, "where it has");
  refused(12, 0, 8, "what lies before the files");
  refused(20, 4096, 8, "");
  for (const char* name : {"/abs", "../up", "a/../../b", "a//b", "./a", ""}) {
    CHECK_FALSE(io::layout::is_name(name));
    CHECK_THROWS_AS(
        io::write_bundle(folder.of("x"), "", {{name, io::BundleKind::File, "", "x"}}, "test"),
        Error);
  }
  CHECK(message_of([&] {
          io::bundle_in_memory(with_index(bytes, index + index.substr(4)), "it");
        }).find("where it has") != std::string::npos);
  CHECK_THROWS_AS(io::bundle_in_memory(with_index(bytes, ""), "it"), Error);
}

TEST_CASE("random indices with right hashes end in an error or in files") {
  const Folder folder;
  const std::string bytes = read(sample(folder));
  const std::string index = bytes.substr(header_of(bytes).index_at);
  std::mt19937_64 random(5);
  for (int round = 0; round < 3000; ++round) {
    std::string changed = index;
    for (int i = 0; i < 1 + static_cast<int>(random() % 4); ++i) {
      const size_t at = random() % changed.size();
      switch (random() % 4) {
        case 0: changed[at] = static_cast<char>(random()); break;
        case 1: changed.resize(at + 1); break;
        case 2: changed.insert(at, changed.substr(at / 2, random() % 64)); break;
        default: {
          const uint64_t value = uint64_t{1} << random() % 64;
          if (changed.size() - at >= 8) std::memcpy(changed.data() + at, &value, 8);
        }
      }
    }
    use(with_index(bytes, changed));
    // And headers that nobody closed.
    io::BundleHeader header = header_of(bytes);
    header.position = random() % (2 * bytes.size());
    if (random() % 2 == 0) header.position = 0;
    if (random() % 2 == 0) header.index_at = random() >> random() % 64;
    if (random() % 2 == 0) header.index_bytes = random() >> random() % 64;
    if (random() % 2 == 0) header.total = random() >> random() % 64;
    io::layout::close_header(header);
    std::string other = bytes;
    std::memcpy(other.data(), &header, sizeof header);
    use(other);
  }
}

TEST_CASE("SHA-256 of what the processor computes and of C++ are one") {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    CHECK(io::sha256(bytes) == io::sha256_anywhere(bytes));
    bytes += static_cast<char>(i * 7);
  }
}
