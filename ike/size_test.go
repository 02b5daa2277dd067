package ike

import (
	"reflect"
	"strings"

	"golang.org/x/sys/unix"
	"time"
)

// octets is the memory that machines keep: all that is reached from them by pointers, slices, maps and strings, counted once. The configuration is not theirs,
// and what closures hold cannot be seen: their number is what waiting counts.
func octets(list []*SA) int {
	s := sizer{seen: map[uintptr]bool{}}
	total := 0
	for _, sa := range list {
		total += s.behind(reflect.ValueOf(sa))
	}
	return total
}

// waiting counts the answers that machines wait for.
func waiting(list []*SA) (n int) {
	for _, sa := range list {
		n += len(sa.waits)
	}
	return n
}

type sizer struct{ seen map[uintptr]bool }

// behind is the size of what v points to; v itself is counted by its owner.
func (s *sizer) behind(v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return int(v.Elem().Type().Size()) + s.behind(v.Elem())
	case reflect.Pointer:
		if v.IsNil() || !ours(v.Type().Elem()) || s.seen[v.Pointer()] {
			return 0
		}
		s.seen[v.Pointer()] = true
		return int(v.Type().Elem().Size()) + s.behind(v.Elem())
	case reflect.Slice:
		if v.Cap() == 0 || s.seen[v.Pointer()] {
			return 0
		}
		s.seen[v.Pointer()] = true
		n = v.Cap() * int(v.Type().Elem().Size())
		for i := range v.Len() {
			n += s.behind(v.Index(i))
		}
	case reflect.String:
		n = v.Len()
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			n += int(v.Type().Key().Size()+v.Type().Elem().Size()) + s.behind(it.Key()) + s.behind(it.Value())
		}
	case reflect.Struct:
		if !ours(v.Type()) {
			return 0
		}
		for i := range v.NumField() {
			n += s.behind(v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			if k := v.Index(i).Kind(); k < reflect.Array { // numbers
				break
			}
			n += s.behind(v.Index(i))
		}
	}
	return n
}

// ours: types of this module that are no configuration.
func ours(t reflect.Type) bool {
	p := t.PkgPath()
	return t.Kind() != reflect.Struct || strings.HasPrefix(p, "cygnet/") && p != "cygnet/policy" && t != reflect.TypeFor[Config]() && t != reflect.TypeFor[Actions]()
}

// threadCPU is what this thread has computed; the caller has locked it.
func threadCPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}
