#include "compile/gpu/glsl/plugin.hpp"

#include <cstddef>
#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <memory>
#include <spirv-tools/libspirv.hpp>

namespace tessera::compile::gpu::glsl {

namespace {

struct Delete {
  void operator()(glslang_shader_t* shader) const noexcept { glslang_shader_delete(shader); }
  void operator()(glslang_program_t* program) const noexcept { glslang_program_delete(program); }
};

void validate(Result& result) {
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_2);
  std::string said;
  tools.SetMessageConsumer([&](spv_message_level_t, const char*, const spv_position_t& at, const char* message) {
    said += "word " + std::to_string(at.index) + ": " + message + '\n';
  });
  if (!tools.Validate(result.words)) result.error = "the compiler made SPIR-V that is not valid: " + said;
}

void compile(const Request& request, Result& result) {
  static const bool is_ready = glslang_initialize_process() != 0;
  if (!is_ready) {
    result.error = "glslang cannot be started";
    return;
  }
  const glslang_input_t input{
      .language = GLSLANG_SOURCE_GLSL,
      .stage = GLSLANG_STAGE_COMPUTE,
      .client = GLSLANG_CLIENT_VULKAN,
      .client_version = GLSLANG_TARGET_VULKAN_1_2,
      .target_language = GLSLANG_TARGET_SPV,
      .target_language_version = GLSLANG_TARGET_SPV_1_5,
      .code = request.source,
      .default_version = 450,
      .default_profile = GLSLANG_NO_PROFILE,
      .force_default_version_and_profile = 0,
      .forward_compatible = 0,
      .messages = static_cast<glslang_messages_t>(GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT),
      .resource = glslang_default_resource(),
  };
  const std::unique_ptr<glslang_shader_t, Delete> shader(glslang_shader_create(&input));
  if (!glslang_shader_preprocess(shader.get(), &input) || !glslang_shader_parse(shader.get(), &input)) {
    result.error = glslang_shader_get_info_log(shader.get());
    return;
  }
  // Declared after the shader, so that it is destroyed first: it refers to the shader.
  const std::unique_ptr<glslang_program_t, Delete> program(glslang_program_create());
  glslang_program_add_shader(program.get(), shader.get());
  if (!glslang_program_link(program.get(), input.messages)) {
    result.error = glslang_program_get_info_log(program.get());
    return;
  }
  // Drivers optimise anyway: doing it twice would cost more than it gains.
  glslang_spv_options_t options{};
  options.disable_optimizer = true;
  glslang_program_SPIRV_generate_with_options(program.get(), GLSLANG_STAGE_COMPUTE, &options);
  result.words.resize(glslang_program_SPIRV_get_size(program.get()));
  glslang_program_SPIRV_get(program.get(), result.words.data());
  if (result.words.empty()) {
    const char* said = glslang_program_SPIRV_get_messages(program.get());
    result.error = said ? said : "glslang made nothing";
    return;
  }
  if (request.is_validated) validate(result);
}

}  // namespace

}  // namespace tessera::compile::gpu::glsl

extern "C" __attribute__((visibility("default"))) void tessera_glsl_1(
    const tessera::compile::gpu::glsl::Request& request, tessera::compile::gpu::glsl::Result& result) {
  tessera::compile::gpu::glsl::compile(request, result);
}
