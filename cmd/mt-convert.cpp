// mt-convert: rewrite a checkpoint in another format or for another parallel layout.
#include <cstdio>

#include "base/command.h"
#include "base/run_context.h"
#include "cmd/programs.h"
#include "formats/convert.h"
#include "formats/differences.h"
#include "formats/inspect.h"

namespace {

using mt::CommandLine;

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void run_convert(CommandLine& cl) {
  mt::ConvertOptions options;
  bool json = false, dry_run = false;
  cl.describe("Rewrite a checkpoint in another format or parallel layout.");
  cl.first_run({"--saver", "--ckpt-format", "--target-tensor-parallel-size",
                "--target-pipeline-parallel-size", "--dtype", "--verify", "--force", "--dry-run",
                "--json"});
  options.add_to(cl);
  cl.flag("--dry-run", &dry_run, "print what would be written, a tensor a line, and write nothing");
  cl.flag("--json", &json, "print a summary as one JSON object");
  cl.parse();
  options.complete();
  if (json && dry_run)
    mt::fail(mt::Exit::usage, "--json: is of a conversion, and --dry-run makes none");
  if (dry_run) return print(describe_conversion(options));
  run_until_signal(cl, [&](const mt::RunContext& context) {
    const mt::ConvertReport report = convert_checkpoint(options, context.log, context.checkpoint);
    cl.log().event("converted", {{"from", report.from},
                                 {"to", report.to},
                                 {"tensors", report.rows},
                                 {"bytes", report.bytes},
                                 {"compared", report.compared}});
    if (report.cost && !json) print(report.cost->text());
    if (!json) return;
    mt::JsonWriter summary;
    report.write(summary);
    print(summary.text() + "\n");
  });
}

void print_line(const std::string& line) { print(line + "\n"); }

[[noreturn]] void end_with_difference(const std::string& what) {
  std::fflush(stdout);  // the product stands before the error that sums it up
  mt::fail(mt::Exit::difference, what);
}

// What the verbs have in common.
void add_inspection(CommandLine& cl, mt::InspectOptions& options) {
  cl.positional("CHECKPOINT", &options.path, "a checkpoint, or a file of tensors, of any format");
  cl.flag("--json", &options.json, "JSON objects, one a line");
  options.note = [&cl](const std::string& line) { cl.log().note(line); };
}

void run_ls(CommandLine& cl) {
  mt::InspectOptions options;
  bool settings = false;
  cl.describe("list the tensors of a checkpoint: type, shape, files");
  add_inspection(cl, options);
  cl.flag("--settings", &settings, "the settings of the model and its run instead");
  cl.parse();
  list_tensors(options, settings, print_line);
}

void run_cat(CommandLine& cl) {
  mt::InspectOptions options;
  std::string key;
  bool values = false;
  cl.describe("print what the numbers of a tensor are like");
  add_inspection(cl, options);
  cl.positional("TENSOR", &key, "its name, as ls prints it");
  cl.flag("--values", &values, "print all elements instead, the last axis a line");
  cl.parse();
  print_tensor(options, key, values, print_line);
}

void run_diff(CommandLine& cl) {
  mt::InspectOptions options;
  std::string other;
  double tolerance = 0;
  cl.describe("compare two checkpoints, of any formats; exit code 1 if they differ");
  add_inspection(cl, options);
  cl.positional("OTHER", &other, "what it is compared with");
  cl.option("--tolerance", &tolerance, "F", "the largest difference that counts as none",
            mt::at_least(0));
  cl.parse();
  if (print_differences(options, other, tolerance, print_line, cl.log()))
    end_with_difference(options.path + ": differs from " + other);
}

void run_verify(CommandLine& cl) {
  mt::InspectOptions options;
  cl.describe("check a checkpoint: hashes, sizes, tensors of the model, finite numbers");
  add_inspection(cl, options);
  cl.parse();
  if (!verify_checkpoint(options, print_line, cl.log()))
    end_with_difference(options.path + ": holds numbers that are not finite");
}

void run(CommandLine& cl) {
  const std::string verb = cl.verb({{"ls", "list the tensors of a checkpoint"},
                                    {"cat", "print what the numbers of a tensor are like"},
                                    {"diff", "compare two checkpoints"},
                                    {"verify", "check a checkpoint"}});
  if (verb == "ls") return run_ls(cl);
  if (verb == "cat") return run_cat(cl);
  if (verb == "diff") return run_diff(cl);
  if (verb == "verify") return run_verify(cl);
  run_convert(cl);
}

}  // namespace

int mt_convert(int argc, char** argv) { return mt::run_command("mt-convert", argc, argv, run); }
