// parse_json: JSON as other programs write it, read by simdjson.  Beyond what simdjson takes it
// takes what Python writes and reads: an integer of any size, which becomes the nearest double; a
// number beyond the doubles and Infinity, which become 1e308 of their sign; NaN, which becomes
// null, or where null would say something else stays what simdjson refuses.  Only readers of files
// include this: nvcc cannot compile simdjson.h.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace mt {

enum class Nan : std::uint8_t { null, refused };

// The parser must outlive the result; the content need not.
simdjson::simdjson_result<simdjson::dom::element> parse_json(simdjson::dom::parser& parser,
                                                             std::string_view content,
                                                             Nan nan = Nan::null);

// Exit::bad_data for the content of `path`, which was refused with `error`: at which byte, and why;
// that a pointer of Git LFS is one; or, where not even its beginning is JSON and that is given,
// what is expected in its place ("a vocabulary").
[[noreturn]] void fail_json(std::string_view content, const std::string& path,
                            simdjson::error_code error, const char* expected = nullptr);

// The content with every such number in the form that simdjson takes, each at most a few bytes
// longer.
std::string with_plain_numbers(std::string_view content, Nan nan = Nan::null);

}  // namespace mt
