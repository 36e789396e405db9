#!/usr/bin/env bash
# Speaks the flags and writes the reports of Kubernetes' e2e.test, for tests of `xtask upstream`. A kubeconfig with
# the word `real` in its name is a cluster on which all specs pass.
for flag in "$@"; do
    case "$flag" in
    --version) echo v1.36.2; exit 0 ;;
    --ginkgo.dry-run) dry=1 ;;
    --ginkgo.json-report=*) report=${flag#*=} ;;
    --ginkgo.focus=*) focus=${flag#*=} ;;
    --kubeconfig=*) kubeconfig=${flag#*=} ;;
    --extra) extra=1 ;;
    esac
done

spec() { # text, labels, state, message
    printf '%s{"ContainerHierarchyTexts":["[sig-api-machinery] ResourceQuota"],"LeafNodeType":"It","LeafNodeText":"%s",' \
        "$comma" "$1"
    printf '"LeafNodeLabels":[%s],"State":"%s","IsSerial":false,"RunTime":2000000,' "$2" "$3"
    printf '"Failure":{"Message":"%s","Location":{"FileName":"fake.go","LineNumber":7}}}' "$4"
    comma=,
}

state() { # state here, name
    case "$focus" in
    *"$2"*) ;;
    *) echo skipped; return ;;
    esac
    case "$kubeconfig" in
    *real*) echo passed ;;
    *) echo "$1" ;;
    esac
}

# The server of the kubeconfig must accept connections.
if [ -z "$dry" ] && [[ $kubeconfig != *real* ]]; then
    address=$(sed -n 's|.*server: https://||p' "$kubeconfig")
    exec 3<>"/dev/tcp/${address%:*}/${address##*:}" || exit 3
fi
case "$kubeconfig $focus" in
*real*) ;;
*"should crash"*) echo "panic: out of order"; exit 2 ;;
esac
works=passed
[ -n "$dry$extra" ] || works=skipped
{
    printf '[{"SuiteDescription":"fake","SpecReports":['
    spec "should work [Conformance]" '"Conformance"' "$(state passed 'should work')"
    spec "should refuse" "" "$(state failed 'should refuse')" "expected 403, got 201"
    spec "should wait" "" "$(state timedout 'should wait')" "A suite timeout occurred"
    spec "should crash" "" "$(state failed 'should crash')"
    spec "should read flags" "" "$(state "$works" 'should read flags')"
    spec "should need [Feature:Nothing]" "" "$(state failed 'should need')"
    printf ']}]'
} >"$report"
