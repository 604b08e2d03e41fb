// No message repeats megabytes of its input, whichever way they come in.
#include <tessera/tessera.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera {
namespace {

constexpr std::size_t megabyte = 1'000'000;
constexpr std::size_t longest_message = 5'000;  // a path may take 4,096

struct Misuse {
  const char* what;
  std::function<void()> call;
};

void expect_short_errors(const std::vector<Misuse>& all) {
  for (const Misuse& misuse : all) {
    try {
      misuse.call();
      ADD_FAILURE() << misuse.what << ": no error";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_LE(message.size(), longest_message) << misuse.what << ": " << message.substr(0, 300);
    }
  }
}

class LongInput : public testing::Test {
 protected:
  const Device device = Device::open("cpu");
  const std::string name = std::string(megabyte, 'x');
  const Buffer x = device.zeros({4}), z = device.zeros({4});
  const Value list = Value(Value::List(megabyte, Value(7)));
};

TEST_F(LongInput, Of_a_call_is_not_repeated) {
  const Buffer image = device.zeros({4, 4, 3});
  const Params twice = {{"slope", 1}};
  expect_short_errors({
      {"kernel", [&] { device.run(name, {x}, z); }},
      {"kernel of a command", [&] { device.submit(name, {x}, z).wait(); }},
      {"parameter", [&] { device.run("relu", {x}, z, {{name, 1}}); }},
      {"value", [&] { device.run("relu", {x}, z, {{"slope", name}}); }},
      {"list", [&] { device.run("relu", {x}, z, {{"slope", list}}); }},
      {"choice", [&] { device.run("sobel", {image}, image, {{"border", name}}); }},
      {"axes", [&] { device.run("transpose", {x}, z, {{"perm", list}}); }},
      {"window", [&] { device.run("max_pool2d", {device.zeros({1, 1, 4, 4})}, z, {{"kernel", list}}); }},
      {"mean", [&] { device.run("preprocess", {device.zeros({4, 4, 3}, u8)}, z, {{"mean", list}}); }},
      {"number of a string", [&] { static_cast<void>(Value(name).number()); }},
      {"parameter given twice", [&] { Params{{name, 1}, {name, 2}}; }},
      {"device", [&] { Device::open(name); }},
      {"element type", [&] { dtype_from_string(name); }},
  });
}

TEST_F(LongInput, Of_a_kernel_is_not_repeated) {
  std::string sum = "x";
  for (std::size_t i = 0; i < megabyte / 4; ++i) sum += " + x";
  expect_short_errors({
      {"kernel's name", [&] { define_kernel(name, {"x"}, "x"); }},
      {"invalid name", [&] { define_kernel(name + "-", {"x"}, "x"); }},
      {"tile kernel's name", [&] { tile::kernel(name, [](tile::Out<float> out) { out.store(0); }); }},
      {"input's name", [&] { define_kernel("long_input", {name}, "x"); }},
      {"invalid input", [&] { define_kernel("long_input", {name + "-"}, "x"); }},
      {"parameter's name", [&] { define_kernel("long_input", {"x"}, "x", {{name, 1}}); }},
      {"default", [&] { define_kernel("long_input", {"x"}, "x", {{"a", name}}); }},
      {"parameter with a wrong default", [&] { define_kernel("long_input", {"x"}, "x", {{name, "a"}}); }},
      {"name in a text", [&] { define_kernel("long_input", {"x"}, name); }},
      {"function in a text", [&] { define_kernel("long_input", {"x"}, name + "(x)"); }},
      {"number in a text", [&] { define_kernel("long_input", {"x"}, std::string(megabyte, '9')); }},
      {"end of a text", [&] { define_kernel("long_input", {"x"}, sum + " +"); }},
      {"middle of a text", [&] { define_kernel("long_input", {"x"}, sum + " 1 " + sum); }},
  });
}

TEST_F(LongInput, Of_a_pipeline_is_not_repeated) {
  Pipeline pipeline(device);
  const Buffer slot = pipeline.slot(name, {4});
  pipeline.param(name + "p", 1);
  pipeline.add("relu", {slot}, z);
  const auto with = [&](const auto& add) {
    return [&, add] {
      Pipeline other(device);
      add(other);
      other.run();
    };
  };
  expect_short_errors({
      {"slot that is taken", [&] { pipeline.slot(name, {4}); }},
      {"parameter that is taken", [&] { pipeline.param(name, 1); }},
      {"unbound slot", [&] { pipeline.run(); }},
      {"wrong buffer for a slot", [&] { pipeline.run({{name, device.zeros({5})}}); }},
      {"empty buffer for a slot", [&] { pipeline.run({{name, Buffer()}}); }},
      {"slot bound to a value", [&] { pipeline.run({{name, 1}}); }},
      {"parameter bound to a buffer", [&] { pipeline.run({{name, x}, {name + "p", x}}); }},
      {"two buffers for a slot", [&] { pipeline.run({{name, x}, {name, x}}); }},
      {"slot bound to what is written", [&] { pipeline.run({{name, z}}); }},
      {"unknown binding", [&] { pipeline.run({{name, x}, {name + "q", x}}); }},
      {"a slot used as a buffer", [&] { device.run("relu", {slot}, z); }},
      {"kernel", with([&](Pipeline& other) { other.add(name, {x}, z); })},
      {"parameter of a stage", with([&](Pipeline& other) { other.add("relu", {x}, z, {{name, 1}}); })},
      {"parameter of the pipeline",
       with([&](Pipeline& other) { other.add("relu", {x}, z, {{"slope", Value::parameter(name)}}); })},
      {"call without a function", with([&](Pipeline& other) { other.call(name, HostFunction(), {}, {z}); })},
      {"call that fails",
       with([&](Pipeline& other) { other.call(name, [] { throw Error(Errc::call_failed, "no"); }, {}, {z}); })},
      {"call of a wrong buffer", with([&](Pipeline& other) { other.call(name, [] {}, {Buffer()}, {z}); })},
      {"named command", [&] { device.run(name); }},
  });
}

TEST_F(LongInput, Of_a_file_is_not_repeated) {
  const std::string head = R"({"tessera": "pipeline", "version": 1, )";
  const auto read = [&](const std::string& json) { return [this, json] { Pipeline::from_json(device, json); }; };
  expect_short_errors({
      {"no JSON", read(name)},
      {"a string without an end", read("\"" + name)},
      {"an unknown member", read(head + '"' + name + "\": 1}")},
      {"a member twice", read(head + '"' + name + "\": 1, \"" + name + "\": 1}")},
      {"a large number", read(head + R"("fuse": )" + std::string(megabyte, '9') + "e999}")},
      {"kind", read(head + R"("buffers": [{"kind": ")" + name + R"("}]})")},
      {"element type", read(head + R"("buffers": [{"kind": "temporary", "dtype": ")" + name + R"("}]})")},
      {"operation", read(head + R"("buffers": [], "params": [], "stages": [{"op": ")" + name + R"("}]})")},
      {"default",
       read(head + R"("buffers": [], "params": [{"name": "a", "default": {"number": ")" + name + R"("}}]})")},
      {"parameter", read(head + R"("buffers": [{"kind": "temporary", "dtype": "f32", "shape": [4]}], "params": [],
          "stages": [{"op": "run_kernel", "kernel": "relu", "inputs": [0], "output": 0, "params": {")" +
                         name + R"(": {}}}]})")},
      {"path", [&] { load_image("/" + name + ".png"); }},
      {"extension", [&] { save_image("a." + name, Image(Shape{1, 1})); }},
  });
}

}  // namespace
}  // namespace tessera
