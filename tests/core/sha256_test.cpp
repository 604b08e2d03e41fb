#include "core/sha256.hpp"

#include <gtest/gtest.h>

#include <set>
#include <span>
#include <string>

namespace tessera::core {
namespace {

std::string digest(const std::string& text) { return to_hex(sha256(std::as_bytes(std::span(text)))); }

// From FIPS 180-4 and its examples.
TEST(Sha256, Gives_the_digests_of_the_standard) {
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Around the end of a block, where the padding needs another one.
TEST(Sha256, Tells_all_lengths_apart) {
  std::set<std::string> seen;
  for (std::size_t size = 0; size <= 200; ++size) seen.insert(digest(std::string(size, '\0')));
  EXPECT_EQ(seen.size(), 201U);
}

}  // namespace
}  // namespace tessera::core
