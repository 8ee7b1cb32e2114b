// Small helpers of the checkpoint tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/file.h"

namespace mt::test {

inline std::string from_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

inline std::string testdata(const std::string& name) {
  return std::string(MT_TESTDATA) + "/ckpt/" + name;
}

// The error that `body` throws: "" if none.  Any other exception fails the test by itself.
inline std::string error_of(const std::function<void()>& body, Exit expected = Exit::bad_data) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), expected) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "";
}

// Most memory that this process ever had, in bytes.  Sanitizers keep what was freed, so there it
// says nothing and is 0.
inline std::size_t peak_memory() {
#ifdef MT_SANITIZE_ADDRESSES
  return 0;
#endif
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

inline std::string sha256_of(const std::string& path) {
  const std::string command = "sha256sum '" + path + "'";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  char digits[65] = {};
  const std::size_t count = std::fread(digits, 1, 64, pipe);
  ::pclose(pipe);
  return std::string(digits, count);
}

inline void write_whole(const std::string& path, std::string_view content) {
  std::remove(path.c_str());  // some file systems wait for the disk when a file is overwritten
  File file = File::create(path);
  file.write(content);
  file.close();
}

}  // namespace mt::test
