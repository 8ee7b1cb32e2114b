#include "eval/tasks/task_session.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "base/command.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/input/line_reader.h"
#include "base/json_place.h"
#include "base/sha256.h"
#include "ckpt/save_lock.h"

namespace mt {

namespace fs = std::filesystem;

void TaskOptions::add_to(CommandLine& cl) {
  cl.section("Tasks");
  cl.option("--data", &data, "DIR",
            "folder with the documents of each task, TASK.jsonl, and what examples are drawn "
            "from, TASK.fewshot.jsonl");
  cl.option("--fewshot", &fewshot, "FILE", "documents that examples are drawn from");
  cl.option("--num-fewshot", &num_fewshot, "N",
            "examples before each question; default: as the task says", at_least(0));
  cl.option("--limit", &limit, "N", "only the first N documents of each task", at_least(1));
  cl.flag("--apply-chat-template", &apply_chat_template,
          "prompts are conversations, by the model's template");
  cl.flag("--fewshot-as-multiturn", &multiturn,
          "with --apply-chat-template: each example is two messages");
  cl.option("--system-instruction", &system, "TEXT", "what stands in front of all prompts");
  cl.option("--bootstrap-iters", &bootstrap_iters, "N",
            "resamples for the standard errors that need them; 0: these are not known",
            between(0, 10'000'000));
  cl.option("--output-dir", &output_dir, "DIR",
            "folder for results.json and samples_TASK.jsonl, a line for each document");
  cl.flag("--resume", &resume, "go on with what is in --output-dir");
  cl.flag("--force", &force, "overwrite what is in --output-dir");
  cl.flag("--log-tokens", &log_tokens, "a document's line has its tokens and their scores, too");
}

const char* TaskOptions::given() const {
  const std::pair<bool, const char*> all[] = {
      {!data.empty(), "--data"},
      {!fewshot.empty(), "--fewshot"},
      {num_fewshot.has_value(), "--num-fewshot"},
      {limit.has_value(), "--limit"},
      {apply_chat_template, "--apply-chat-template"},
      {multiturn, "--fewshot-as-multiturn"},
      {!system.empty(), "--system-instruction"},
      {bootstrap_iters != TaskOptions().bootstrap_iters, "--bootstrap-iters"},
      {!output_dir.empty(), "--output-dir"},
      {resume, "--resume"},
      {force, "--force"},
      {log_tokens, "--log-tokens"}};
  for (const auto& [is_given, name] : all)
    if (is_given) return name;
  return nullptr;
}

void TaskOptions::check() const {
  struct Rule {
    bool given, fits;
    const char *name, *needed;
  };
  for (const Rule& rule :
       {Rule{resume, !output_dir.empty(), "--resume", "--output-dir"},
        Rule{force, !output_dir.empty(), "--force", "--output-dir"},
        Rule{multiturn, apply_chat_template, "--fewshot-as-multiturn", "--apply-chat-template"}})
    if (rule.given && !rule.fits)
      fail(Exit::usage, rule.name, ": has no effect without ", rule.needed);
  if (resume && force) fail(Exit::usage, "--resume and --force exclude each other");
}

// --- Which tasks ---------------------------------------------------------------------------------

static std::vector<std::string> parts_of(std::string_view asked) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t comma = std::min(asked.find(','), asked.size());
    parts.emplace_back(asked.substr(0, comma));
    if (comma == asked.size()) return parts;
    asked.remove_prefix(comma + 1);
  }
}

static bool is_task_file(std::string_view name) {
  return name.ends_with(".task") || name.ends_with(".yaml") || name.ends_with(".yml");
}

bool names_tasks(std::string_view asked) {
  return std::ranges::all_of(parts_of(asked), [](const std::string& name) {
    return is_task_file(name) || builtin_task(name) || builtin_group(name);
  });
}

TaskPlan::TaskPlan(const TaskSettings& settings) {
  for (const std::string& name : parts_of(settings.asked)) add(settings, name, 0);
  if (tasks_.size() > 1 && (!settings.inputs.empty() || !settings.options.fewshot.empty()))
    fail(Exit::usage, settings.inputs.empty() ? "--fewshot" : settings.inputs.front(),
         ": is of one task, and --task names ", tasks_.size(), "; --data DIR has those of several");
}

void TaskPlan::add(const TaskSettings& settings, const std::string& name, int depth) {
  if (const auto group = builtin_group(name)) {
    const std::size_t first = tasks_.size(), at = groups_.size();
    groups_.push_back({.group = *group, .first = first, .depth = depth});
    for (const std::string& member : group->members) add(settings, member, depth + 1);
    groups_[at].end = tasks_.size();
    return;
  }
  if (const auto yaml = builtin_task(name))
    return add_task(settings, read_eval_task(*yaml, name), settings.options.data);
  const std::string& data = settings.options.data;
  add_task(settings, read_eval_task(read_file(name), name),
           data.empty() ? parent_directory(name) : data);
}

void TaskPlan::add_task(const TaskSettings& settings, EvalTask task, const std::string& folder) {
  const TaskOptions& o = settings.options;
  const auto in_folder = [&](const char* end) {
    return (fs::path(folder) / (task.name + end)).string();
  };
  for (const Planned& other : tasks_)
    if (other.task.name == task.name) fail(Exit::usage, "--task: ", task.name, " stands twice");
  Planned planned{.task = {}, .documents = settings.inputs, .pool = {}};
  planned.num_fewshot = o.num_fewshot.value_or(task.num_fewshot);
  if (!o.fewshot.empty() && !task.examples.empty())
    fail(Exit::usage, "--fewshot: has no effect, as ", task.name, " has examples of its own");
  if (!o.fewshot.empty() && !o.num_fewshot && planned.num_fewshot == 0)
    fail(Exit::usage,
         "--fewshot: has no effect without examples, of which --num-fewshot says more");
  if (planned.documents.empty()) {
    if (folder.empty())
      fail(Exit::usage, "--task ", task.name, ": needs its documents: a file, or --data DIR with ",
           task.name, ".jsonl");
    planned.documents = {in_folder(".jsonl")};
  }
  if (planned.num_fewshot > 0 && task.examples.empty()) {
    if (!o.fewshot.empty())
      planned.pool = {o.fewshot};
    else if (!folder.empty() && fs::exists(in_folder(".fewshot.jsonl")))
      planned.pool = {in_folder(".fewshot.jsonl")};
    else if (task.draws_itself)
      planned.pool = planned.documents;
    else
      fail(Exit::usage, "--task ", task.name, ": ", planned.num_fewshot,
           " examples need --fewshot FILE, or ", task.name, ".fewshot.jsonl beside the documents");
  }
  if (task.kind == EvalKind::rolling && planned.num_fewshot > 0)
    fail(Exit::usage, "--num-fewshot: ", task.name, " has no examples");
  planned.task = std::move(task);
  tasks_.push_back(std::move(planned));
}

int TaskPlan::depth_of(std::size_t task) const {
  int depth = 0;
  for (const Group& group : groups_) depth += group.first <= task && task < group.end;
  return depth;
}

// --- Documents -----------------------------------------------------------------------------------

EvalDocs read_docs(const std::vector<std::string>& paths) {
  EvalDocs all;
  LineReader reader({.inputs = paths, .are_json = true});
  LineBlock block;
  while (reader.next(block))
    for_each_line(block, [&](std::string_view line, std::int64_t number) {
      if (line.find_first_not_of(" \t\r") == line.npos) return;
      const std::string place = concat(block.file, ":", number);
      check_begins_object(line, place);
      ChatValue doc = chat_value_of_json(line, place);
      all.docs.push_back(std::move(doc));
      all.places.push_back(place);
      all.folders.push_back(fs::path(block.file).parent_path().string());
    });
  if (all.docs.empty()) fail(Exit::bad_data, paths.front(), ": there is no document");
  return all;
}

// --- Runs ----------------------------------------------------------------------------------------

namespace {

using Print = std::function<void(std::string_view)>;

// What is in a folder of a run: the lines of its documents.
class SampleFile {
 public:
  // Without a folder there is none.
  SampleFile(const TaskOptions& options, const std::string& task) {
    if (options.output_dir.empty()) return;
    path_ = (fs::path(options.output_dir) / ("samples_" + task + ".jsonl")).string();
    if (options.resume && fs::exists(path_)) {
      before_ = read_file(path_);
      before_.resize(before_.rfind('\n') + 1);  // npos + 1: nothing is whole
    }
  }
  // The lines of documents that are whole, which are kept.
  std::vector<std::string_view> keep(std::size_t lines_of_each) {
    std::vector<std::string_view> lines;
    for (std::string_view left = before_; !left.empty();) {
      const std::size_t end = left.find('\n');
      lines.push_back(left.substr(0, end));
      left.remove_prefix(end + 1);
    }
    lines.resize(lines.size() / lines_of_each * lines_of_each);
    if (path_.empty()) return lines;
    std::size_t bytes = 0;
    for (const std::string_view line : lines) bytes += line.size() + 1;
    if (bytes == 0)
      File::create(path_).close();
    else
      fs::resize_file(path_, bytes);
    file_.emplace(File::append(path_));
    return lines;
  }
  void write(std::string_view lines) {
    if (file_) file_->write(lines);
  }
  void close() {
    if (!file_) return;
    file_->sync();
    file_->close();
  }

 private:
  std::string path_, before_;
  std::optional<File> file_;
};

// A line must be of the document that comes at its place, asked in the same way.
void check_same(std::string_view line, const EvalItem& item, const std::string& task) {
  const ChatValue value = chat_value_of_json(line, "--resume");
  const auto is = [&](std::string_view key, const std::string& expected) {
    const ChatValue* const text = value.find(key);
    return text != nullptr && text->is_text() && *text->text() == expected;
  };
  if (!is("doc_hash", sha256_hex(chat_value_json(item.doc, {.indent = 2, .item = ","}))) ||
      !is("prompt_hash", sha256_hex(item.requests.front().context)))
    fail(Exit::bad_config, "--resume: document ", item.id, " of ", task,
         " or what was asked of it is another now");
}

EvalResults::Entry run_one(const TaskPlan::Planned& planned, const TaskSettings& settings,
                           const EvalModel& model, const Print& print,
                           const std::function<void()>& done) {
  const EvalTask& task = planned.task;
  EvalDocs docs = read_docs(planned.documents);
  const std::int64_t original = std::ssize(docs.docs);
  if (settings.options.limit) {
    const auto limit = static_cast<std::size_t>(std::min(*settings.options.limit, original));
    docs.docs.resize(limit);
  }
  std::vector<ChatValue> pool = task.examples;
  if (!planned.pool.empty()) pool = read_docs(planned.pool).docs;
  PromptOptions prompting{
      .num_fewshot = planned.num_fewshot, .seed = settings.seed, .system = settings.options.system};
  if (settings.options.apply_chat_template) prompting.chat = settings.chat;
  prompting.multiturn = settings.options.multiturn;
  TaskPrompts prompts(task, std::move(pool),
                      planned.pool.empty() ? task.name : planned.pool.front(), prompting);
  TaskScores scores(task);
  SampleFile file(settings.options, task.name);
  const std::vector<std::string_view> before = file.keep(task.filters.size());
  for (const std::string_view line : before) {
    scores.add_line(line, "--resume");
    if (settings.json) print(std::string(line) + "\n");
  }
  const auto passed = static_cast<std::size_t>(scores.documents());
  if (passed > docs.docs.size())
    fail(Exit::bad_config, "--resume: ", task.name, " had ", passed, " documents, now ",
         docs.docs.size());
  run_task(
      task, docs, passed, prompts, model,
      [&](const EvalItem& item) {
        check_same(before[static_cast<std::size_t>(item.id) * task.filters.size()], item,
                   task.name);
      },
      [&](const EvalAnswer& answer) {
        const std::string lines = scores.add(answer, settings.options.log_tokens);
        file.write(lines);
        if (settings.json) print(lines);
        done();
      });
  file.close();
  return {.name = task.name,
          .alias = task.alias,
          .version = task.version,
          .num_fewshot = planned.num_fewshot,
          .original = original,
          .effective = scores.documents(),
          .results = scores.results(settings.options.bootstrap_iters),
          .config = task.written};
}

// The folder of a run is new, or has a run of the same settings that goes on, and no other writes
// there meanwhile.
std::unique_ptr<SaveLock> prepare_folder(const TaskSettings& settings) {
  const TaskOptions& o = settings.options;
  if (o.output_dir.empty()) return {};
  make_folder(o.output_dir);
  auto lock = std::make_unique<SaveLock>(o.output_dir);
  const std::string run = (fs::path(o.output_dir) / "run.json").string();
  const bool is_there = fs::exists(run);
  if (is_there && o.resume && read_file(run) != settings.run + "\n")
    fail(Exit::bad_config, run, ": is of a run with other settings, ", settings.run);
  if (is_there && !o.resume && !o.force)
    fail(Exit::cannot_create, o.output_dir,
         ": has a run already; --resume goes on with it, --force begins anew");
  write_file_atomically(run, settings.run + "\n", true);
  return lock;
}

}  // namespace

void run_tasks(const TaskPlan& plan, const TaskSettings& settings, const EvalModel& model,
               const Print& print, const std::function<void()>& done) {
  const std::unique_ptr<SaveLock> lock = prepare_folder(settings);
  EvalResults results;
  const auto add_groups = [&](std::size_t end, std::vector<std::size_t>& first) {
    for (std::size_t i = plan.groups().size(); i-- > 0;)
      if (plan.groups()[i].end == end && first[i] < results.size())
        results.add_group(plan.groups()[i].group, first[i], plan.groups()[i].depth);
  };
  std::vector<std::size_t> first(plan.groups().size());
  for (std::size_t k = 0; k < plan.tasks().size(); ++k) {
    for (std::size_t i = 0; i < first.size(); ++i)
      if (plan.groups()[i].first == k) first[i] = results.size();
    EvalResults::Entry entry = run_one(plan.tasks()[k], settings, model, print, done);
    entry.depth = plan.depth_of(k);
    results.add(std::move(entry));
    add_groups(k + 1, first);
  }
  JsonWriter json;
  json.begin_object().member("schema", "mt-eval/1").member("summary", true);
  results.write(json);
  json.key("config")
      .begin_object()
      .member("model", settings.model)
      .member("fewshot_seed", settings.seed)
      .member("bootstrap_iters", settings.options.bootstrap_iters)
      .end_object()
      .end_object();
  if (!settings.options.output_dir.empty())
    write_file_atomically((fs::path(settings.options.output_dir) / "results.json").string(),
                          json.text() + "\n", true);
  print(settings.json ? json.text() + "\n" : results.table());
}

}  // namespace mt
