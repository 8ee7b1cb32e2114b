// refuse_lfs_pointer: a clone without Git LFS has a small text in the place of each large file.
#pragma once

#include <string>
#include <string_view>

namespace mt {

inline constexpr const char* kIsLfsPointer =
    "is a pointer of Git LFS; git lfs pull fetches the file itself";

bool is_lfs_pointer(std::string_view start);
// Exit::bad_data where `start`, with which the file `name` begins, is such a text.
void refuse_lfs_pointer(std::string_view start, const std::string& name);

}  // namespace mt
