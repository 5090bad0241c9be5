"""Build settings."""

visibility(["//rules", "//rules/..."])

StringFlagInfo = provider(
    doc = "Value of a string flag.",
    fields = {"value": "string: the value."},
)

def _string_flag_impl(ctx):
    values = ctx.attr.values
    if values and ctx.build_setting_value not in values:
        fail("%s=%s: want one of %s." % (ctx.label, ctx.build_setting_value, ", ".join(values)))
    return [StringFlagInfo(value = ctx.build_setting_value)]

string_flag = rule(
    implementation = _string_flag_impl,
    attrs = {"values": attr.string_list(doc = "What it may be set to; empty: anything.")},
    build_setting = config.string(flag = True),
    doc = "A flag with a string for its value.",
)
