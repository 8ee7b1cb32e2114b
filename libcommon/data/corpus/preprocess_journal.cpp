#include "data/corpus/preprocess_journal.h"

#include <simdjson.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"

namespace mt {
namespace {

namespace dom = simdjson::dom;

// Counts of a JSON array or members of an object; a simdjson_error where one is none.
std::int64_t count(dom::element value) {
  const std::int64_t number = value.get_int64();
  if (number < 0) throw simdjson::simdjson_error(simdjson::NUMBER_OUT_OF_RANGE);
  return number;
}

PreprocessJournal::State read_state(dom::element line) {
  PreprocessJournal::State state;
  state.lines = count(line["lines"]);
  state.bad = {count(line["bad_lines"]), count(line["quarantine_bytes"])};
  for (dom::element dataset : line["datasets"].get_array())
    state.datasets.push_back({count(dataset.at(0)), count(dataset.at(1)), count(dataset.at(2))});
  return state;
}

}  // namespace

std::string journal_path(const std::string& prefix) { return prefix + ".journal"; }

PreprocessJournal::PreprocessJournal(const std::string& prefix, const std::string& run,
                                     std::size_t datasets)
    : path_(journal_path(prefix)), file_(-1, path_) {
  state_.datasets.resize(datasets);
  file_ = File::append(path_);
  if (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0)
    fail(Exit::cannot_create, path_, ": another process is writing it");
  struct stat status = {};
  if (::fstat(file_.descriptor(), &status) != 0 || status.st_nlink == 0)
    fail(Exit::cannot_create, path_, ": another process has just ended the run it was of");
  // Read only now that nobody else writes it.  A first line that was cut is none.
  if (const std::string content = read_file(path_); content.find("}\n") != content.npos) {
    read(content, run);
    return;
  }
  if (::ftruncate(file_.descriptor(), 0) != 0) fail_errno(path_, "cannot be cut", Exit::io_error);
  JsonWriter json;
  json.begin_object().member("schema", "mt-journal/1").member("run", run).end_object();
  append(json.text());
  sync_directory(parent_directory(path_));
}

void PreprocessJournal::read(const std::string& content, const std::string& run) {
  dom::parser parser;
  std::string_view rest = content;
  for (std::int64_t number = 1; rest.find('\n') != rest.npos; ++number) {
    const std::string line(rest.substr(0, rest.find('\n')));
    rest.remove_prefix(line.size() + 1);
    try {
      const dom::element value = parser.parse(line);
      if (number == 1) {
        if (std::string_view(value["schema"]) != "mt-journal/1" ||
            std::string_view(value["run"]) != run)
          fail(Exit::bad_config, path_,
               ": of a run with other inputs or options; remove it to begin anew");
      } else if (value["commit"].error() == simdjson::SUCCESS) {
        commit_begun_ = true;
      } else {
        State state = read_state(value);
        if (state.datasets.size() != state_.datasets.size())
          throw simdjson::simdjson_error(simdjson::INDEX_OUT_OF_BOUNDS);
        state_ = std::move(state);
        commit_begun_ = false;
      }
    } catch (const simdjson::simdjson_error& error) {
      if (number > 1 && line.find('}') == line.npos) continue;  // cut when the run was ended
      fail(Exit::bad_data, path_, ":", number, ": damaged: ", error.what());
    }
  }
}

void PreprocessJournal::append(const std::string& line) {
  file_.write(line + "\n");
  file_.sync();
}

void PreprocessJournal::save(const State& state) {
  JsonWriter json;
  json.begin_object().member("lines", state.lines).member("bad_lines", state.bad.count);
  json.member("quarantine_bytes", state.bad.bytes).key("datasets").begin_array();
  for (const IndexedDatasetWriter::State& dataset : state.datasets)
    json.begin_array()
        .value(dataset.sequences)
        .value(dataset.documents)
        .value(dataset.tokens)
        .end_array();
  json.end_array().end_object();
  append(json.text());
}

void PreprocessJournal::begin_commit() { append("{\"commit\":true}"); }

void PreprocessJournal::remove() {
  if (::unlink(path_.c_str()) != 0) fail_errno(path_, "cannot remove", Exit::io_error);
  sync_directory(parent_directory(path_));
}

}  // namespace mt
