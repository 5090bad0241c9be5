#!/usr/bin/perl
# Prints the BUILD file of a configured checkout of OpenSSL 1.1.1: the libraries, the
# program openssl, a cc_test for each call of a test program in test/recipes, and one for
# each recipe that starts openssl. What is left out is in comments at the end.
#
#   cd CHECKOUT && perl build.pl > BUILD.bazel
use strict;
use warnings;
use Cwd;
use File::Basename;
use File::Temp;
use JSON::PP;
use POSIX ();
use Test::More ();

use lib '.';
use configdata;

my (@left, %tests, %made);

# Programs and recipes that a test of Bazel's can't be, with the reason.
my %without = (
    aborttest => 'must be killed by a signal',
    shlibloadtest => 'loads libcrypto from the file that is named',
    drbg_cavs_test => 'part of its data is too large for some mirrors of the repository',
);
my %without_recipe = (
    '01-test_symbol_presence' => 'needs shared libraries of make',
    '02-test_ordinals' => 'reads all sources',
    '80-test_cms' => 'the certificates of its messages have expired',
    '99-test_fuzz' => 'thousands of inputs',
);

# The calls of a recipe, seen by running it with another OpenSSL::Test, in which nothing is executed.
package OpenSSL::Test;
our (@calls, $expects, $recipe, %generated);
our @plain = qw(ok is isnt like unlike cmp_ok pass fail diag note skip todo_skip done_testing is_deeply can_ok isa_ok eq_array eq_hash eq_set use_ok require_ok BAIL_OUT explain);
sub import {
    my $caller = caller;
    no strict 'refs';
    no warnings 'redefine';
    *{"${caller}::$_"} = \&{$_} for qw(setup plan run indir cmd app fuzz test perlapp perltest subtest bldtop_dir bldtop_file
        srctop_dir srctop_file data_file data_dir pipe with cmdstr quotify openssl_versions);
    *{"${caller}::$_"} = \&{"Test::More::$_"} for grep { defined &{"Test::More::$_"} } @plain;
    *{"${caller}::TODO"} = \$Test::More::TODO;
}
sub setup { }
our $skipped;
sub plan { $skipped = $_[1], die "skipped\n" if ($_[0] // '') eq 'skip_all' }
sub program { my ($kind, $words, %options) = @_; return { kind => $kind, words => [map { "$_" } @$words], %options } }
sub cmd { program('app', @_) }
sub app { program('app', @_) }
sub perlapp { program('app', @_) }
sub perltest { program('perl', @_) }
sub fuzz { program('fuzz', @_) }
sub test { program('test', @_) }
sub pipe { $_->{piped} = 1 for @_; return { kind => 'pipe', all => [@_] } }
sub run {
    my ($call, %options) = @_;
    my $status = $options{statusvar};
    $$status = 1 if $status;
    for my $one ($call->{all} ? @{ $call->{all} } : $call) {
        $generated{ $one->{stdout} } = $one->{words}[1] if $one->{kind} eq 'perl' && defined $one->{stdout};
        my %env = map { $_ => $ENV{$_} } grep { !exists $main::before{$_} } keys %ENV;
        push @calls, { %$one, expects => $expects, env => \%env };
    }
    return $options{capture} ? () : 1;
}
sub indir { my ($dir, $sub) = @_; $sub->() }
sub subtest { my ($name, $sub) = @_; eval { $sub->() }; 1 }
sub with { my ($hooks, $sub) = @_; local $expects = 1; $sub->() }
sub joined { join('/', grep { $_ ne '.' && $_ ne '' } @_) || '.' }
sub srctop_dir { joined(@_) }
sub srctop_file { joined(@_) }
sub bldtop_dir { joined(@_) }
sub bldtop_file { $_[0] eq 'configdata.pm' ? './configdata.pm' : joined(@_) }
sub data_dir { joined("test/recipes/${recipe}_data", @_) }
sub data_file { joined("test/recipes/${recipe}_data", @_) }
sub cmdstr { 'openssl' }
sub quotify { @_ }
sub openssl_versions { (0x1010100f, 0x1010100f) }

package main;
our %before = %ENV;
$INC{'OpenSSL/Test.pm'} = $0;

sub calls {
    my ($file) = @_;
    my $scratch = File::Temp->newdir; # for what recipes write themselves
    my $top = getcwd();
    symlink "$top/$_", "$scratch/$_" for map { basename($_) } glob '*';
    pipe(my $in, my $out) or die $!;
    my $pid = fork // die $!;
    if (!$pid) {
        close $in;
        chdir $scratch or die $!;
        open STDOUT, '>', '/dev/null';
        open STDERR, '>', '/dev/null';
        Test::More->builder->$_(\*STDOUT) for qw(output failure_output todo_output);
        $OpenSSL::Test::recipe = basename($file, '.t');
        no warnings;
        *File::Temp::tempfile = sub { (undef, 'scratch.tmp') };
        *File::Temp::tempdir = sub { 'scratch.d' };
        unshift @INC, 'util/perl', 'test';
        $0 = $file;
        srand 1;
        my $report = sub {
            print $out JSON::PP->new->canonical->encode([\@OpenSSL::Test::calls, \%OpenSSL::Test::generated, $OpenSSL::Test::skipped]);
            close $out;
            POSIX::_exit(0);
        };
        eval "END { \$report->() }";
        do "./$file";
        exit 0;
    }
    close $out;
    local $/;
    my $text = <$in>;
    waitpid $pid, 0;
    return $text ? @{ JSON::PP::decode_json($text) } : ([], {});
}

# Starlark.
sub quoted { my ($s) = @_; $s =~ s/([\\"])/\\$1/g; return "\"$s\"" }
sub list { my ($indent, @all) = @_; return '[]' unless @all; my $pad = ' ' x $indent; return "[\n" . join('', map { "$pad    " . quoted($_) . ",\n" } @all) . "$pad]" }
sub rule {
    my ($kind, @pairs) = @_;
    print "$kind(\n";
    while (my ($key, $value) = splice(@pairs, 0, 2)) {
        next if !defined $value || (ref $value && !@$value);
        print "    $key = ", (ref $value ? list(4, @$value) : $value =~ /^[\[{(]|^\d+$|^glob|^True|^False|^[A-Z_]+( \+ |$)/ ? $value : quoted($value)), ",\n";
    }
    print ")\n\n";
}
sub sources {
    my ($of) = @_;
    my (%seen, @all);
    for my $object (@{ $unified_info{sources}{$of} || [] }) {
        for my $source ($object =~ /\.o$/ ? @{ $unified_info{sources}{$object} } : $object) {
            push @all, $source unless $seen{$source}++;
        }
    }
    return sort @all;
}
my %makefile;
open my $makefile, '<', 'Makefile' or die "build.pl: no Makefile here: $!";
while (<$makefile>) { $makefile{$1} = $2 if /^([A-Z_]+) *= *(.*)$/ }
sub flags {
    my ($name) = @_;
    my $text = $makefile{$name} // '';
    1 while $text =~ s/\$\(([A-Za-z_]+)\)/$makefile{$1} \/\/ ''/e;
    # The shell's quotes go, Starlark's are added; -fPIC is Bazel's own affair.
    return grep { !/^(-fPIC|-Wall)?$/ } map { s/\\"/\x01/g; s/"//g; s/\x01/\\"/g; $_ } split ' ', $text;
}
my %label = (libcrypto => ':crypto', libssl => ':ssl', 'test/libtestutil.a' => ':testutil', 'apps/libapps.a' => ':apps',
    'libcrypto.a' => ':crypto', 'libssl.a' => ':ssl');
# The rule for what make builds as $of; $dirs have headers, too.
sub compiled {
    my ($kind, $name, $of, $flags, $dirs, @attributes) = @_;
    my %dirs = map { $_ => 1 } '.', @$dirs, map { @{ $unified_info{includes}{$_} || [] } } $of, @{ $unified_info{sources}{$of} || [] };
    rule($kind, name => $name, srcs => [sources($of)], copts => [@$flags, map { "-I$_" } sort keys %dirs], @attributes, deps => [deps($of), ':headers']);
}
sub deps { my ($of) = @_; my %seen; return grep { !$seen{$_}++ } map { $label{$_} // () } @{ $unified_info{depends}{$of} || [] } }

print "# Written by build.pl.\nload(\"\@rules_cc//cc:defs.bzl\", \"cc_binary\", \"cc_library\", \"cc_test\")\n\n";
print 'filegroup(name = "recipes", srcs = glob(', list(0, 'Configure', 'apps/*.cnf', 'apps/*.pem', 'apps/*.srl', 'apps/*.pl', 'configdata.pm', 'test/**', 'tools/c_rehash', 'util/**'),
    ', exclude = ', list(0, 'test/*.c', 'test/*.h'), "))\n\nRECIPES = [\":recipes\"]\n\n";
# Sources that others include. Assembler isn't scanned for headers: it would be assembled again for each other source.
my @sources = map { glob } map { ("$_/*.c", "$_/*/*.c", "$_/*/*/*.c") } qw(apps crypto engines ssl test);
my %included;
for my $file (@sources) {
    open my $in, '<', $file or die "build.pl: $file: $!";
    while (<$in>) { $included{ basename($1) } = 1 if /^\s*#\s*include\s+"([^"]+\.c)"/ }
}
rule('cc_library', name => 'headers', hdrs => 'glob(["**/*.h", "**/*.inc"])', includes => ['include'],
    textual_hdrs => [sort grep { $included{ basename($_) } } @sources]);
my @library = (flags('LIB_CFLAGS'), flags('LIB_CPPFLAGS'));
my @program = (flags('BIN_CFLAGS'), flags('BIN_CPPFLAGS'));
my @static = (linkstatic => 'True');
compiled('cc_library', 'crypto', 'libcrypto', \@library, [], @static, linkopts => [flags('LIB_EX_LIBS')]);
compiled('cc_library', 'ssl', 'libssl', \@library, [], @static);
compiled('cc_library', 'testutil', 'test/libtestutil.a', \@program, [], @static, testonly => 'True');
compiled('cc_library', 'apps', 'apps/libapps.a', \@program, ['apps'], @static);
compiled('cc_binary', 'apps/openssl', 'apps/openssl', \@program, ['apps']);

my %programs = map { $_ => 1 } @{ $unified_info{programs} };
my @recipes;
for my $file (sort glob 'test/recipes/*.t') {
    my $recipe = basename($file, '.t');
    if (my $why = $without_recipe{$recipe}) { push @left, "$recipe: $why"; next }
    my ($calls, $generated, $skipped) = calls($file);
    push @left, "$recipe: " . ($skipped || 'calls nothing') unless @$calls;
    if (grep { $_->{kind} eq 'app' } @$calls) {
        push @recipes, [ $recipe, map { $_->{words}[0] } grep { $_->{kind} eq 'test' && $programs{"test/$_->{words}[0]"} } @$calls ];
    }
    my %seen;
    for my $call (grep { $_->{kind} eq 'test' } @$calls) {
        my ($name, @words) = @{ $call->{words} };
        my $source = "test/$name";
        my $why = $without{$name};
        $why //= 'no such program' unless $programs{$source};
        $why //= 'is part of a pipe' if $call->{piped};
        $why //= 'reads its input from a file' if defined $call->{stdin};
        $why //= 'has an exit code of its own' if $call->{expects};
        @words = map { exists $generated->{$_} ? $generated->{$_} =~ s/\.in$//r : $_ } @words;
        my @data = grep { -e $_ && $_ ne '.' } @words, values %{ $call->{env} };
        my ($missing) = grep { m{/|\.(pem|der|cnf|txt|key|ss|tmp)$} && !-e $_ && $_ ne 'scratch.tmp' && $_ !~ m{^-|:} } @words;
        $why //= "what it reads is made by other commands: $missing" if $missing;
        if ($why) { push @left, "$recipe: $name: $why" unless $seen{"$name$why"}++; next }
        push @{ $tests{$name} }, [ \@words, \@data, $call->{env} ];
    }
}
for my $name (sort keys %tests) {
    my %seen;
    my @calls = grep { !$seen{ join "\0", @{ $_->[0] }, %{ $_->[2] } }++ } @{ $tests{$name} };
    my $at = 0;
    for my $call (@calls) {
        my ($words, $data, $env) = @$call;
        my %once;
        my @globs = map { m{^(test/recipes/[^/]+_data)/} ? "$1/**" : -d $_ ? "$_/**" : $_ } grep { !$once{$_}++ } @$data;
        compiled('cc_test', "test/$name" . ($at++ ? "_$at" : ''), "test/$name", \@program, ['apps'], args => [@$words],
            data => (@globs ? 'glob(' . list(4, sort @globs) . ')' : undef),
            env => (%$env ? '{' . join(', ', map { quoted($_) . ': ' . quoted($env->{$_}) } sort keys %$env) . '}' : undef));
    }
}

# A recipe is run by Perl, in a tree that looks as make's: programs lie where they are named.
my %helpers = map { $_ => 1 } grep { !$tests{$_} } map { @$_[1 .. $#$_] } @recipes;
compiled('cc_binary', "test/$_", "test/$_", \@program, ['apps'], testonly => 'True') for sort keys %helpers;
for my $one (@recipes) {
    my ($recipe, @used) = @$one;
    my %seen;
    rule('cc_test', name => "recipe/$recipe", srcs => ['//tasting_suite:recipe.c'], args => ["test/recipes/$recipe.t"],
        data => list(4, ':apps/openssl', map { ":test/$_" } grep { !$seen{$_}++ } sort @used) . ' + RECIPES');
}
print "# Left out:\n", map { "# $_\n" } @left;
