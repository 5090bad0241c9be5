"""Build settings."""

visibility(["//rules", "//rules/..."])

StringFlagInfo = provider(
    doc = "Value of a string flag.",
    fields = {"value": "string: the value."},
)

def _string_flag_impl(ctx):
    return [StringFlagInfo(value = ctx.build_setting_value)]

string_flag = rule(
    implementation = _string_flag_impl,
    build_setting = config.string(flag = True),
    doc = "A flag with a string for its value.",
)
