package symname

import "testing"

func TestTestCase(t *testing.T) {
	const impl, param, end = "_ZN7testing8internal15TestFactoryImplI", "_ZN7testing8internal24ParameterizedTestFactoryI", "E10CreateTestEv"
	for function, want := range map[string]string{
		impl + "8A_B_Test" + end:                                                "A_B_Test",
		impl + "N12_GLOBAL__N_18A_B_TestE" + end:                                "A_B_Test",
		impl + "N2ns12_GLOBAL__N_18A_B_TestE" + end:                             "A_B_Test",
		impl + "NS0_8A_B_TestE" + end:                                           "A_B_Test",
		impl + "NS_8A_B_TestE" + end:                                            "A_B_Test",
		impl + "N12_GLOBAL__N_18A_B_TestIiEE" + end:                             "A_B_Test",
		impl + "N12_GLOBAL__N_114gtest_suite_A_1BINS_1XEEE" + end:               "gtest_suite_A_::B",
		param + "N12_GLOBAL__N_18A_B_TestE" + end:                               "A_B_Test",
		impl + "99A_B_Test" + end:                                               "",
		impl + "99999999999999999999A_B_Test" + end:                             "",
		impl + "S" + end:                                                        "",
		impl + "E10CreateTestEv":                                                "",
		impl + "8A_B_Test" + end + ".cold":                                      "",
		"_ZN7testing8internal15TestMetaFactoryI8A_B_TestE17CreateTestFactoryEi": "",
		"main": "",
	} {
		if got := TestCase(function); got != want {
			t.Errorf("%s: %q, want %q", function, got, want)
		}
	}
}

func FuzzTestCase(f *testing.F) {
	f.Add("_ZN7testing8internal15TestFactoryImplIN12_GLOBAL__N_18A_B_TestEE10CreateTestEv")
	f.Fuzz(func(t *testing.T, function string) { TestCase(function) })
}
