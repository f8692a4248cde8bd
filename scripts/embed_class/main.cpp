// scripts/embed_class/main.cpp: a host program with a class of its own, which a script makes
// objects of, extends, and hands back: a chain of effects that the host runs over a sound.
//   c++ -std=c++20 main.cpp $(pkg-config --cflags --libs moonlet) -o embed_class
//   ./embed_class chain.lua
// Expect the root mean square before and after each effect, and the text of help(Effect).
#include <moonlet/class.h>
#include <moonlet/moonlet.h>
#include <cmath>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ml = moonlet;

namespace {

using Samples = std::vector<double>;

class Effect {
 public:
  explicit Effect(std::string name) : name_(std::move(name)) {}
  virtual ~Effect() = default;
  // One sample. The default lets it through.
  virtual double process(double x) { return x; }
  const std::string& name() const { return name_; }
  double mix = 1;  // how much of the effect there is in the result, from 0 to 1

 private:
  std::string name_;
};

class Gain : public Effect {
 public:
  explicit Gain(double factor) : Effect("gain"), factor_(factor) {}
  double process(double x) override { return factor_ * x; }

 private:
  double factor_;
};

// What objects of a script's own effects are of: they ask the script first.
class ScriptedEffect : public Effect, public ml::Overrides {
 public:
  using Effect::Effect;
  double process(double x) override {
    return overridden<double>(
        "process", [&] { return Effect::process(x); }, x);
  }
};

void bind(ml::Interpreter& lua) {
  lua.bind<Effect, ScriptedEffect>("Effect")
      .text("One step of a chain: it gets a sample and gives one.")
      .constructor<std::string>(ml::arg("name"))
      .method("process", &Effect::process, ml::arg("x"), "The sample with the effect.")
      .readonly("name", &Effect::name)
      .property("mix", &Effect::mix, "How much of the effect there is, from 0 to 1.");
  lua.bind<Gain>("Gain").base<Effect>().constructor<double>(ml::arg("factor") = 2);
}

double root_mean_square(const Samples& samples) {
  double sum = 0;
  for (const double x : samples) sum += x * x;
  return std::sqrt(sum / static_cast<double>(samples.size()));
}

void run(const std::string& script) {
  ml::Interpreter lua;
  bind(lua);
  lua.register_function("tone", [](double frequency, int64_t count, double rate) {
    Samples samples;
    for (int64_t i = 0; i < count; ++i)
      samples.push_back(std::sin(2 * M_PI * frequency * static_cast<double>(i) / rate));
    return samples;
  });
  const ml::Table made = lua.run_file(script).at(0).table();

  Samples sound = made.get<Samples>("sound");
  const auto chain = made.get<std::vector<std::shared_ptr<Effect>>>("chain");
  std::printf("%-8s %.4f\n", "sound", root_mean_square(sound));
  for (const std::shared_ptr<Effect>& effect : chain) {
    for (double& x : sound) x = effect->mix * effect->process(x) + (1 - effect->mix) * x;
    std::printf("%-8s %.4f\n", effect->name().c_str(), root_mean_square(sound));
  }
  const auto count = made.get<ml::TypedFunction<std::pair<std::string, int>()>>("count");
  const auto [name, clipped] = count();
  std::printf("%s has clipped %d samples\n", name.c_str(), clipped);
  lua.run_string("print(require('moonlet').help.text(Effect))");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s SCRIPT\n", argv[0]);
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "embed_class: %s\n", e.what());
    return 1;
  }
  return 0;
}
