/* keda.h - the definition of ScaledObjects, as far as an API server needs it to serve them. */
#ifndef TESTS_SUPPORT_KEDA_H
#define TESTS_SUPPORT_KEDA_H

static inline const char *keda_definition(void)
{
    return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: scaledobjects.keda.sh}\n"
           "spec:\n  group: keda.sh\n  scope: Namespaced\n"
           "  names: {plural: scaledobjects, singular: scaledobject, kind: ScaledObject, listKind: ScaledObjectList}\n"
           "  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, "
           "x-kubernetes-preserve-unknown-fields: true}}}]\n";
}

#endif
