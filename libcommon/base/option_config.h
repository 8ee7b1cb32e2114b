// Config files: a subset of YAML, one `option: value` a line.
//
//   # a comment
//   micro-batch-size: 4        # the option's name without its dashes
//   split: 969,30,1            # plain text runs to the end of the line or to " #"
//   tokenizer: "a: \"b\"\n"    # double quotes: escapes \\ \" \n \t; single quotes: '' is one quote
//   json-keys: [text, 'title'] # a list
//   bf16: true
//
// What YAML would read as more than that (nesting, anchors, `- ` items, null) is an error.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mt {

struct ConfigEntry {
  std::string key, written;         // written: the value as it stands in the file
  std::vector<std::string> values;  // one, unless it is a list
  bool list = false;
  int line = 0;  // from 1
};

// Throws Exit::bad_config with "path:line: ...".  Keys are unique.
std::vector<ConfigEntry> parse_config(std::string_view content, const std::string& path);

// `value` or `[a, b]` alone, as after `option: `; `where` stands before errors.
ConfigEntry parse_config_value(std::string_view text, const std::string& where);

// The value in a form that parse_config reads back: plain where that is safe, else quoted.
std::string config_value(const std::string& text);

}  // namespace mt
