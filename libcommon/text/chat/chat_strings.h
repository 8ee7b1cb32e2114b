// Python's methods of strings over UTF-8 text.  Positions count code points.  What would become too
// large throws a ChatFailure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mt {

std::int64_t count_points(std::string_view text);
std::vector<std::string_view> each_point(std::string_view text);  // the bytes of each

// Without the characters at its sides that are in `chars`; nothing given: white space.
enum class Side : std::uint8_t { both, left, right };
std::string_view strip_text(std::string_view text, Side side,
                            std::optional<std::string_view> chars = {});

std::string upper_text(std::string_view text);
std::string lower_text(std::string_view text);
std::string capitalize_text(std::string_view text);
std::string title_text(std::string_view text);  // str.title()
bool is_digits(std::string_view text);          // str.isdigit()

// At most `most` cuts; less than 0: any number.
std::vector<std::string_view> split_text(std::string_view text, std::string_view separator,
                                         std::int64_t most);
std::vector<std::string_view> split_right(std::string_view text, std::string_view separator,
                                          std::int64_t most);
std::vector<std::string_view> split_space(std::string_view text, std::int64_t most);
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);
std::string replace_text(std::string_view text, std::string_view old, std::string_view by,
                         std::int64_t most);
std::int64_t count_text(std::string_view text, std::string_view part);
std::string escape_html(std::string_view text);  // as markupsafe does

std::string quoted_text(std::string_view text);  // repr()

}  // namespace mt
