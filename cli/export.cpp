#include "command.h"

#include <comera/base/error.h>
#include <comera/train/export.h>

#include <memory>

namespace comera::cli {
namespace {

struct Options {
  std::string checkpoint, out, format = "factored";
};

int run(const Options& options) {
  std::error_code none;
  check(!std::filesystem::equivalent(options.checkpoint, options.out, none),
        "[export] {} is the checkpoint itself; name another file", options.out);
  const train::SavedModel saved = train::load_model(options.checkpoint);
  const std::int64_t values = train::export_model(
      saved, options.out,
      options.format == "dense" ? train::ExportFormat::dense : train::ExportFormat::factored);
  say(false, fmt::format("{}: {} values", options.out, values));
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("export", "Write a checkpoint's weights as a safetensors file for other tools");
  command->add_option("checkpoint", options->checkpoint, "checkpoint, for example runs/demo/best.ckpt")
      ->required();
  command->add_option("out", options->out, "file to write, for example model.safetensors")->required();
  command
      ->add_option(
          "--format", options->format,
          "factored: cores with the rank scales folded in; dense: whole matrices, [out, in] as in torch")
      ->check(CLI::IsMember({"factored", "dense"}))
      ->capture_default_str();
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace comera::cli
