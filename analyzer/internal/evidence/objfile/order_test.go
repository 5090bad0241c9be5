package objfile

import (
	"strings"
	"testing"

	"github.com/rules-tasting/rules_tasting/analyzer/internal/evidence/manifest"
)

// Names of functions tell what a program orders by addresses.
func TestOrdersBy(t *testing.T) {
	for _, tc := range []struct{ name, want string }{
		{"main", ""},
		{"_ZNSt8_Rb_treeIPKvSt4pairIKS1_iESt10_Select1stIS4_ESt4lessIS1_ESaIS4_EE24_M_get_insert_unique_posERS3_.isra.0", "*variables"},
		{"_ZNSt8_Rb_treeIPiS0_St9_IdentityIS0_ESt7greaterIS0_ESaIS0_EE8_M_eraseEPSt13_Rb_tree_nodeIS0_E", "*variables"},
		{"_ZNSt8_Rb_treeIPKvS1_St9_IdentityIS1_ESt4lessIvESaIS1_EE16_M_insert_uniqueIS1_EESt4pairISt17_Rb_tree_iteratorIS1_EbEOT_", "*variables"},
		{"_ZNSt3setIPKvSt4lessIS1_ESaIS1_EED1Ev", "*variables"},
		{"_ZNSt3setISt4pairIiPcESt4lessIS2_ESaIS2_EED2Ev", "*variables"},
		{"_ZNSt8_Rb_treeISt5tupleIJPiiEES2_St9_IdentityIS2_ESt4lessIS2_ESaIS2_EE24_M_get_insert_unique_posERKS2_", "*variables"},
		{"_ZNSt8_Rb_treeISt10error_codeS0_St9_IdentityIS0_ESt4lessIS0_ESaIS0_EE8_M_eraseEPSt13_Rb_tree_nodeIS0_E", "*variables"},
		{"_ZNSt3mapISt15error_conditioniSt4lessIS0_ESaISt4pairIKS0_iEEED1Ev", "*variables"},
		{"_ZStltRKSt10error_codeS1_", "*variables"},
		{"_ZNKSt3_V214error_categoryssERKS0_", "*variables"},
		{"_ZSt16__introsort_loopIN9__gnu_cxx17__normal_iteratorIPPiSt6vectorIS2_SaIS2_EEEElSt4lessIS2_EEvT_SA_T0_T1_", "*variables"},
		{"_ZSt16__introsort_loopIPPKvlN9__gnu_cxx5__ops15_Iter_less_iterEEvT_S6_T0_T1_", "*variables"},
		{"_ZNKSt4lessIP3FooEclES1_S1_", "*variables"},
		{"_ZNSt3mapIPFvvEiSt4lessIS1_ESaISt4pairIKS1_iEEED2Ev", "*functions *variables"},
		{"_ZNSt8_Rb_treeIPKcSt4pairIKS1_iESt10_Select1stIS4_ESt4lessIS1_ESaIS4_EE24_M_get_insert_unique_posERS3_", "*functions *literals *variables"},
		{"_ZNSt3__16__treeINS_12__value_typeIPKviEENS_19__map_value_compareIS3_S4_NS_4lessIS3_EELb1EEENS_9allocatorIS4_EEE7destroyEPNS_11__tree_nodeIS4_PvEE", "*variables"},
		{"_ZNSt3__16__treeINS_12__value_typeINS_10type_indexEiEENS_19__map_value_compareIS2_S3_NS_4lessIS2_EELb1EEENS_9allocatorIS3_EEE7destroyEPNS_11__tree_nodeIS3_PvEE", "*types"},
		{"_ZNSt4__Cr6__treeIPiNS_4lessIS1_EENS_9allocatorIS1_EEE7destroyEPNS_11__tree_nodeIS1_PvEE", "*variables"},
		{"_ZNSt3__111__introsortINS_17_ClassicAlgPolicyERNS_4lessIPiEEPS3_Lb0EEEvT1_S7_T0_NS_15iterator_traitsIS7_E15difference_typeEb", "*variables"},
		{"_ZNSt3__111__introsortINS_17_ClassicAlgPolicyERNS_6__lessIvvEEPPiLb0EEEvT1_S7_T0_NS_15iterator_traitsIS7_E15difference_typeEb", "*variables"},
		{"_ZNSt3__119__partial_sort_implB8ne210108INS_17_ClassicAlgPolicyERNS_7greaterIvEEPPiS6_EET1_S7_S7_T2_OT0_", "*variables"},
		{"_ZNSt3__111__introsortINS_17_ClassicAlgPolicyERNS_6__lessIvvEEPiLb0EEEvT1_S6_T0_NS_15iterator_traitsIS6_E15difference_typeEb", ""},
		{"_ZSt5alignmmRPvRm", "*program"},

		// Others compare what pointers point to, or nobody sees the order.
		{"_ZNSt8_Rb_treeIPN7leveldb12FileMetaDataES2_St9_IdentityIS2_ENS0_10VersionSet7Builder15BySmallestKeyESaIS2_EE8_M_eraseEPSt13_Rb_tree_nodeIS2_E", ""},
		{"_ZNSt8_Rb_treeISt10type_indexSt4pairIKS0_iESt10_Select1stIS3_ESt4lessIS0_ESaIS3_EE8_M_eraseEPSt13_Rb_tree_nodeIS3_E", ""},
		{"_ZNSt8_Rb_treeINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES5_St9_IdentityIS5_ESt4lessIS5_ESaIS5_EE8_M_eraseEPSt13_Rb_tree_nodeIS5_E", ""},
		{"_ZNKSt4lessIPKcEclES1_S1_", ""},
		{"_ZNKSt4lessIPKvEclES1_S1_", ""},
		{"_ZNSt8_Rb_treeIPKvSt4pairIKS1_N7testing12_GLOBAL__N_115MockObjectStateEESt10_Select1stIS7_ESt4lessIS1_ESaIS7_EE8_M_eraseEPSt13_Rb_tree_nodeIS7_E", ""},
		{"_ZNSt3setIPN7testing8internal25UntypedFunctionMockerBaseESt4lessIS3_ESaIS3_EED2Ev", ""},
	} {
		if got := strings.Join(ordersBy(tc.name), " "); got != tc.want {
			t.Errorf("%s asks for %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestReadsOwn(t *testing.T) {
	for content, want := range map[string]bool{
		"/proc/self/exe": true, "/proc/self/maps\x00": true, "x\x00/proc/self/statm\x00y": true, "/proc/self/smaps_rollup\x00": true, "/proc/thread-self/maps": true,
		"/proc/self/task/%d/maps\x00": true, "/proc/%d/maps": true, "/proc/%lu/exe\x00": true, "/proc/self": true, "/proc/self/\x00": true, "/proc/self/whatever": true,
		"\x48\xb8/proc/se\x48\xbalf/maps\x00": true,
		"/proc/cpuinfo":                       false, "/proc/self/status\x00": false, "/proc/self/cmdline\x00/exe": false, "/proc/self/fd/%d\x00": false, "/proc/self/task\x00": false,
		"/proc/self/task/%d/comm\x00": false, "/proc/%d/stat": false, "/proc/": false, "": false,
	} {
		if got := namesOwnFile([]byte(content)); got != want {
			t.Errorf("%q: %t", content, got)
		}
	}
}

// What an object says of places and of what it asks for.
func TestOrder(t *testing.T) {
	m := load(t, build(t, "t.cc", `
#include <cstdio>
#include <typeinfo>
namespace { struct B {}; }
struct C { virtual ~C(); };
C::~C() {}
static int n = 1;
int k;
int *f() { return &n; }
const std::type_info &b() { return typeid(B); }
FILE *file() { return fopen("/proc/self/exe", "rb"); }
FILE *other() { return fopen("/proc/cpuinfo", "rb"); }`, "-O1"))
	kinds := map[string]uint32{}
	for _, c := range m.Components {
		for _, place := range c.Places {
			kinds[c.Name] = place % manifest.PlaceKinds
		}
		if names, _ := m.LinkNames(c); strings.Contains(strings.Join(names, " "), manifest.OwnProgram) != (c.Name == "_Z4filev") {
			t.Errorf("%s refers to %q", c.Name, names)
		}
	}
	for name, want := range map[string]uint32{
		"_ZTSN12_GLOBAL__N_11BE": manifest.PlaceTypes, "_ZTS1C": manifest.PlaceOtherTypes, "k": manifest.PlaceVariables, "_Z1fv": manifest.PlaceFunctions, "_ZTI1C": manifest.PlaceVariables,
	} {
		if got, there := kinds[name]; !there || got != want {
			t.Errorf("%s is of kind %d (%t), want %d", name, got, there, want)
		}
	}
	if len(m.Units[0].Content) != 16 || len(m.Units[0].Literals) != 16 {
		t.Errorf("the unit has the content %x, and literals %x", m.Units[0].Content, m.Units[0].Literals)
	}
}
