// tests/cpp/interpreter/class_test.cpp: classes of the host in scripts: members, inheritance, who
// owns objects, what ends while scripts refer to it, classes of scripts that extend them.
#include "tests/cpp/catch2.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interp/embed/class.h"
#include "tests/cpp/messages.h"

using namespace moonlet;

namespace {

struct Node {
  explicit Node(std::string n = "node") : name(std::move(n)) { ++alive; }
  Node(const Node& other) : name(other.name) { ++alive; }
  virtual ~Node() { --alive; }
  virtual double process(double x) const { return x; }
  double run(double x) const { return process(x) + 1; }
  std::string name;
  std::shared_ptr<Node> next;
  static inline int alive = 0;
};

struct Gain : Node {
  explicit Gain(double g) : Node("gain"), amount(g) {}
  double process(double x) const override { return amount * x; }
  double amount;
};

// A second base, so that the addresses differ.
struct Tagged {
  virtual ~Tagged() = default;
  int tag = 5;
  int get_tag() const { return tag; }
};
struct Both : Gain, Tagged {
  Both() : Gain(3) {}
};
struct Top : virtual Node {};
struct Left : Top {
  int left = 1;
};

struct ScriptedNode : Node, Overrides {
  using Node::Node;
  double process(double x) const override {
    return overridden<double>(
        "process", [&] { return Node::process(x); }, x);
  }
};

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
};
struct ScriptedShape : Shape, Overrides {
  double area() const override { return required<double>("area"); }
};

struct Vec {
  double x = 0, y = 0;
  Vec operator+(const Vec& o) const { return {x + o.x, y + o.y}; }
  Vec operator-() const { return {-x, -y}; }
  bool operator==(const Vec& o) const { return x == o.x && y == o.y; }
  bool operator<(const Vec& o) const { return x < o.x; }
};

struct Kept : Lifetime {
  int value = 4;
  Vec inner;
  Vec& get_inner() { return inner; }
  Kept& self() { return *this; }
  int read() const { return value; }
  void write(int v) { value = v; }
};

struct Bag {
  std::vector<int> items;
  size_t size() const { return items.size(); }
  auto begin() const { return items.begin(); }
  auto end() const { return items.end(); }
};

void bind_nodes(Interpreter& lua) {
  lua.bind<Node, ScriptedNode>("Node")
      .constructor<>()
      .constructor<std::string>(arg("name"))
      .method("process", &Node::process, arg("x"))
      .method("run", &Node::run)
      .property("name", &Node::name)
      .property("next", &Node::next);
  lua.bind<Gain>("Gain").base<Node>().constructor<double>().property("amount", &Gain::amount);
  lua.bind<Tagged>("Tagged").method("get_tag", &Tagged::get_tag);
  lua.bind<Both>("Both").base<Gain>().base<Tagged>().constructor<>();
}

std::string run(Interpreter& lua, const std::string& code) {
  return lua.run_string("return tostring(" + code + ")", "s")[0].string();
}

}  // namespace

TEST_CASE("scripts make objects of the host's classes and call them") {
  Interpreter lua;
  bind_nodes(lua);
  CHECK(run(lua, "Node('a').name") == "a");
  CHECK(run(lua, "Node().name") == "node");
  CHECK(run(lua, "Gain.new(2):run(3)") == "7.0");
  lua.run_string("n = Node() n.name = 'b'");
  CHECK(run(lua, "n.name") == "b");
  CHECK(run(lua, "n:process(2)") == "2.0");
  CHECK(run(lua, "getmetatable(n) == Node") == "true");
  CHECK(run(lua, "Node").find("class Node") == 0);
  CHECK(run(lua, "n").find("Node: ") == 0);
  // What scripts add to a class its objects have, those of derived classes too.
  lua.run_string("function Node:twice(x) return 2 * self:process(x) end");
  CHECK(run(lua, "Gain(3):twice(1)") == "6.0");
}

TEST_CASE("errors name the method, the argument, what came and what was expected") {
  Interpreter lua;
  bind_nodes(lua);
  const auto error = [&](const char* code) {
    return message_of([&] { lua.run_string(code, "s"); });
  };
  CHECK(error("Node():process('x')") ==
        "s:1: Node.process: argument 1 (x): expected number, got string 'x'");
  CHECK(error("Node():process()") ==
        "s:1: Node.process: argument 1 (x): expected number, got nothing");
  CHECK(error("Node():process(1, 2)") == "s:1: Node.process: expected at most 1 arguments, got 2");
  CHECK(error("Node.process(1)") ==
        "s:1: Node.process: self: expected Node, got 1; methods are called as "
        "object:process(...)");
  CHECK(error("Node.process({}, 1)").find("self: expected Node, got table") != std::string::npos);
  CHECK(error("Gain.run(Node(), 1)") == "");
  lua.run_string("x = Node()");
  CHECK(error("x.nmae = 'y'") == "s:1: Node has no property 'nmae'; did you mean 'name'?");
  CHECK(error("x:proces(1)") == "s:1: Node has no member 'proces'; did you mean 'process'?");
  CHECK(error("Both.get_tag(x)").find("self: expected Tagged, got Node") != std::string::npos);
  CHECK(error("Node(1, 2)")
            .find("Node: no overload takes (1, 2); candidates:\n  Node() -> Node\n"
                  "  Node(name: string) -> Node") != std::string::npos);
  CHECK(error("Tagged()") == "s:1: Tagged has no constructor: the host makes its objects");
  CHECK(error("x.name = 5") == "s:1: Node.name: argument 1: expected string, got 5");
}

TEST_CASE("derived classes have the members of their bases, with the right self") {
  Interpreter lua;
  bind_nodes(lua);
  lua.bind<Top>("Top").base<Node>();
  lua.bind<Left>("Left").base<Top>().constructor<>().property("left", &Left::left);
  CHECK(run(lua, "Both():get_tag()") == "5");
  CHECK(run(lua, "Both():run(2)") == "7.0");
  CHECK(run(lua, "Both().amount") == "3.0");
  CHECK(run(lua, "Left().name") == "node");
  CHECK(run(lua, "Left():run(1)") == "2.0");
  // A base pointer comes as what it points to.
  Both both;
  lua.set("tagged", static_cast<Tagged*>(&both));
  CHECK(run(lua, "tagged:run(1)") == "4.0");
  const auto tag_of = [](const Tagged& t) { return t.tag; };
  lua.register_function("tag_of", tag_of);
  CHECK(run(lua, "tag_of(tagged)") == "5");
  // What a base gets later.
  lua.bind<Vec>("Vec");
  CHECK(message_of([&] { lua.bind<Node>("Node2"); }) ==
        "bind: class 'Node2' is already bound as 'Node'");
  CHECK(message_of([&] {
          lua.bind<Shape>("Shape");
          lua.bind<ScriptedShape>("S").base<Overrides>();
        }).find("has a base class that is not bound") != std::string::npos);
}

TEST_CASE("overloads, defaults, static functions, constants") {
  Interpreter lua;
  struct Synth {
    std::string log;
    void note(int pitch, double velocity) {
      log += std::to_string(pitch) + "@" + std::to_string(velocity).substr(0, 3) + " ";
    }
    void named(const std::string& name) { log += name + " "; }
    static Synth loud() { return {"loud "}; }
  };
  lua.bind<Synth>("Synth")
      .text("Plays notes.")
      .constructor<>()
      .method("note", &Synth::note, arg("pitch"), arg("velocity") = 0.8, "Begins a note.")
      .method("note", &Synth::named, arg("name"))
      .method("both", overload([](Synth& s, int x) { s.log += "i" + std::to_string(x); },
                               [](Synth& s, bool x) { s.log += x ? "yes" : "no"; }))
      .function("loud", &Synth::loud)
      .constant("VOICES", 8)
      .readonly("log", &Synth::log);
  lua.run_string("s = Synth.loud() s:note(60) s:note(61, 0.5) s:note 'c' s:both(1) s:both(true)");
  CHECK(run(lua, "s.log") == "loud 60@0.8 61@0.5 c i1yes");
  CHECK(run(lua, "Synth.VOICES") == "8");
  CHECK(message_of([&] { lua.run_string("s.log = ''", "s"); }) ==
        "s:1: Synth.log: the property can only be read");
  CHECK(message_of([&] { lua.run_string("s:note({})", "s"); }) ==
        "s:1: Synth.note: no overload takes (table); candidates:\n"
        "  note(pitch: int32, velocity: number = 0.8)\n  note(name: string)");
  CHECK(message_of([&] { lua.run_string("s:both({})", "s"); }) ==
        "s:1: Synth.both: no overload takes (table); candidates:\n  both(int32)\n  both(boolean)");
  const std::string help = lua.run_string("return getmetatable(Synth).__help()")[0].string();
  CHECK(help.find("class Synth\n\n  Plays notes.\n\nMade by\n  Synth() -> Synth\n\nMethods\n"
                  "  :note(pitch: int32, velocity: number = 0.8)\n") == 0);
  CHECK(lua.run_string("return require('moonlet').help.text(s)")[0].string() == help);
  CHECK(lua.run_string("return require('moonlet').help.text(Synth)")[0].string() == help);
  const std::string stubs = class_stubs(lua);
  CHECK(stubs.find("---@class Synth\n---@field log string\n") != std::string::npos);
  CHECK(stubs.find("---@param pitch integer\n---@param velocity? number\n"
                   "---@overload fun(self: Synth, name: string)\n"
                   "function Synth:note(pitch, velocity) end") != std::string::npos);
  CHECK(message_of([&] {
          lua.bind<Bag>("Bag").method(
              "x", [](Bag&, int, int) {}, arg("a") = 1);
        }).find("parameters with defaults are the last ones") != std::string::npos);
}

TEST_CASE("operators, iteration and fallbacks") {
  Interpreter lua;
  lua.bind<Vec>("Vec")
      .constructor<>()
      .function("of",
                [](double x, double y) {
                  return Vec{x, y};
                })
      .property("x", &Vec::x)
      .property("y", &Vec::y)
      .operators()
      .metamethod("__mul", overload(
                               [](const Vec& v, double s) {
                                 return Vec{v.x * s, v.y * s};
                               },
                               [](double s, const Vec& v) {
                                 return Vec{v.x * s, v.y * s};
                               }))
      .index([](const Vec& v, int i) { return i == 1 ? v.x : v.y; })
      .new_index([](Vec& v, int i, double value) { (i == 1 ? v.x : v.y) = value; })
      .tostring([](const Vec& v) { return "(" + std::to_string(int(v.x)) + ")"; });
  lua.run_string("a, b = Vec.of(1, 2), Vec.of(3, 4)");
  CHECK(run(lua, "(a + b).x") == "4.0");
  CHECK(run(lua, "(2 * a + b * 2).y") == "12.0");
  CHECK(run(lua, "(-a).x") == "-1.0");
  CHECK(run(lua, "a == Vec.of(1, 2) and a ~= b and a < b") == "true");
  CHECK(run(lua, "a") == "(1)");
  CHECK(run(lua, "b[2]") == "4.0");
  lua.run_string("b[1] = 9");
  CHECK(run(lua, "b.x") == "9.0");
  CHECK(message_of([&] { lua.run_string("return a.z", "s"); }) ==
        "s:1: Vec.__index: argument 1: expected int32, got string 'z'");
  CHECK(message_of([&] { lua.run_string("return a + 1", "s"); }) ==
        "s:1: Vec.__add: argument 1: expected Vec, got 1");
  lua.bind<Bag>("Bag").iteration();
  lua.set("bag", Bag{{5, 6, 7}});
  CHECK(run(lua, "#bag") == "3");
  lua.run_string("t = {} for i, v in pairs(bag) do t[#t + 1] = i .. ':' .. v end");
  CHECK(run(lua, "table.concat(t, ' ')") == "1:5 2:6 3:7");
  using Ages = std::map<std::string, int>;
  struct People : Ages {};
  lua.bind<People>("People").iteration();
  People people;
  people["ann"] = 3;
  lua.set("people", &people);
  lua.run_string("for k, v in pairs(people) do who = k .. v end");
  CHECK(run(lua, "who") == "ann3");
}

TEST_CASE("objects end when nobody has them") {
  const int before = Node::alive;
  {
    Interpreter lua;
    bind_nodes(lua);
    lua.run_string("for i = 1, 100 do Node() end collectgarbage() collectgarbage()");
    CHECK(Node::alive == before);
    lua.run_string("do local n <close> = Node() kept = n end");
    CHECK(Node::alive == before);
    CHECK(message_of([&] { lua.run_string("kept:run(1)", "s"); }) ==
          "s:1: Node.run: self: expected Node, got Node that has ended; methods are called as "
          "object:run(...)");
    lua.run_string("global = Node() setmetatable({}, {__gc = function() late = Node() end})");
  }
  CHECK(Node::alive == before);
}

TEST_CASE("shared_ptr and unique_ptr pass both ways") {
  const int before = Node::alive;
  {
    Interpreter lua;
    bind_nodes(lua);
    std::shared_ptr<Node> held;
    std::unique_ptr<Node> taken;
    lua.register_function("hold", [&](std::shared_ptr<Node> n) { held = n; });
    lua.register_function("held", [&] { return held; });
    lua.register_function("take", [&](std::unique_ptr<Node> n) { taken = std::move(n); });
    lua.register_function("give", [&] { return std::move(taken); });
    lua.run_string("n = Node('s') hold(n)");
    CHECK(held->name == "s");
    CHECK(run(lua, "rawequal(held(), n)") == "true");
    lua.run_string("n = nil collectgarbage() collectgarbage()");
    CHECK(held->name == "s");
    CHECK(run(lua, "held().name") == "s");
    lua.run_string("a = Node('a') a.next = Node('b') c = a.next");
    CHECK(run(lua, "rawequal(c, a.next) and c.name") == "b");
    CHECK(run(lua, "a.next.next") == "nil");
    lua.run_string("u = Gain(2) take(u)");
    CHECK(taken->run(1) == 3);
    CHECK(message_of([&] {
            lua.run_string("u:run(1)", "s");
          }).find("got Gain that was given to the host") != std::string::npos);
    CHECK(run(lua, "give():run(2)") == "5.0");  // of the class that it is of
    CHECK(message_of([&] {
            lua.run_string("take(held())", "s");
          }).find("expected Node that is the script's own, got one that others hold") !=
          std::string::npos);
    Node mine("mine");
    lua.set("mine", &mine);
    CHECK(message_of([&] {
            lua.run_string("hold(mine)", "s");
          }).find("got one that the host keeps") != std::string::npos);
    lua.run_string("hold(nil)");
    CHECK(held == nullptr);
  }
  CHECK(Node::alive == before);
}

TEST_CASE("references keep what they lie in, and end with it") {
  Interpreter lua;
  lua.bind<Vec>("Vec").property("x", &Vec::x);
  lua.bind<Kept>("Kept")
      .constructor<>()
      .property("inner", &Kept::inner)
      .property("value", &Kept::value)
      .method("get_inner", &Kept::get_inner)
      .method("self", &Kept::self)
      .method("read", &Kept::read)
      .method("write", &Kept::write);
  lua.run_string("k = Kept() v = k.inner w = k:get_inner() v.x = 3");
  CHECK(run(lua, "w.x") == "3.0");
  CHECK(run(lua, "v == w and rawequal(k, k:self())") == "true");
  lua.run_string("k, w = nil, nil collectgarbage() collectgarbage()");
  CHECK(run(lua, "v.x") == "3.0");
  auto object = std::make_unique<Kept>();
  lua.set("object", object.get());
  lua.set("again", reference(*object));
  CHECK(run(lua, "rawequal(object, again) and object:read()") == "4");
  const Kept& constant = *object;
  lua.set("constant", &constant);
  CHECK(run(lua, "constant:read()") == "4");
  for (const char* code : {"constant:write(5)", "constant.value = 5"})
    CHECK(message_of([&] {
            lua.run_string(code, "s");
          }).find("self: expected Kept that may be changed, got constant Kept") !=
          std::string::npos);
  object.reset();
  for (const char* name : {"object", "again", "constant"})
    CHECK(message_of([&] {
            lua.run_string(std::string(name) + ":read()", "s");
          }).find("got Kept that has ended") != std::string::npos);
  CHECK(run(lua, "object") == "Kept that has ended");
  CHECK_THROWS_AS(lua.get<Kept>("object"), ConversionError);
}

TEST_CASE("objects pass by value, and only where their class is bound") {
  Interpreter lua, other;
  lua.bind<Vec>("Vec").property("x", &Vec::x);
  Vec v{1, 2};
  lua.set("v", v);
  v.x = 5;
  CHECK(run(lua, "v.x") == "1.0");
  CHECK(lua.get<Vec>("v").y == 2);
  CHECK(lua.get<Vec*>("v")->y == 2);
  lua.run_string("list = {v, v}");
  CHECK(lua.get<std::vector<Vec>>("list").size() == 2);
  CHECK(message_of([&] { other.set("v", v); }).find("is not bound in this interpreter") !=
        std::string::npos);
  CHECK(message_of([&] { other.set("v", lua.get("v")); }) ==
        "a value of another interpreter was given");
}

TEST_CASE("constructors and destructors may throw") {
  struct Thrower {
    explicit Thrower(int x) : value(x) {
      if (x < 0) throw std::invalid_argument("no voices");
    }
    ~Thrower() noexcept(false) {
      if (value == 7) throw std::runtime_error("will not end");
    }
    int value;
  };
  Interpreter lua;
  std::string said;
  Interpreter::Options options;
  options.output = [&](Stream, std::string_view text) { said += text; };
  Interpreter warned(options);
  for (Interpreter* each : {&lua, &warned}) each->bind<Thrower>("Thrower").constructor<int>();
  CHECK_THROWS_AS(lua.run_string("Thrower(-1)"), std::invalid_argument);
  CHECK(run(lua, "select(2, pcall(Thrower, -1))") == "s:1: no voices");
  warned.run_string("warn '@on' Thrower(7) collectgarbage() collectgarbage()");
  CHECK(said.find("the destructor of Thrower threw: will not end") != std::string::npos);
}

TEST_CASE("no use of a class's functions by a script ends the process") {
  Interpreter lua;
  bind_nodes(lua);
  lua.register_function("call", [](const std::function<void()>& f) { f(); });
  lua.run_string(R"(
    local Own = Node:extend "Own"
    local objects = {Node(), Own(), Gain(1), Both()}
    local arguments = {{}, {1}, {Node}, {Own}, {io.stdout}, {Node, "zz", 3}, {Own, "zz", 3}}
    for _, object in ipairs(objects) do
      table.insert(arguments, {object})
      table.insert(arguments, {object, "name"})
      table.insert(arguments, {object, "name", {}})
      table.insert(arguments, {object, nil, 3})
    end
    local function try(t)
      for name, f in pairs(t) do
        if type(f) == "function" and name ~= "__gc" and name ~= "__close" then
          for _, each in ipairs(arguments) do pcall(f, table.unpack(each, 1, 3)) pcall(f, table.unpack(each)) end
        end
      end
    end
    for _, class in ipairs {Node, Own, Gain, Both, Tagged} do try(class) try(getmetatable(class)) end
    for _, object in ipairs(objects) do try(debug.getmetatable(object)) end
    for _, object in ipairs(objects) do debug.getmetatable(object).__gc(object) pcall(function() return object:run(1) end) end
    for _, object in ipairs(objects) do try(debug.getmetatable(object)) end
    local back = setmetatable({}, {__gc = function(t) pcall(t.n.run, t.n, 1) end})
    back.n = Node()
    back = nil
    collectgarbage() collectgarbage()
    pcall(coroutine.wrap(function() call(function() coroutine.yield(1) end) end))
    local function deep() call(deep) end
    pcall(deep))");
  CHECK(run(lua, "Node('x').name") == "x");
}

TEST_CASE("scripts extend classes and override virtual methods") {
  const int before = Node::alive;
  {
    Interpreter lua;
    bind_nodes(lua);
    std::shared_ptr<Node> held;
    std::unique_ptr<Node> taken;
    lua.register_function("hold", [&](std::shared_ptr<Node> n) { held = n; });
    lua.register_function("take", [&](std::unique_ptr<Node> n) { taken = std::move(n); });
    lua.register_function("held", [&]() -> Node* { return held.get(); });
    lua.run_string(R"(
      Loud = Node:extend "Loud"
      function Loud:init(by)
        Node.init(self, "loud")
        self.by = by
      end
      function Loud:process(x) return self.by * Node.process(self, x) end
      Louder = Loud:extend "Louder"
      function Louder:process(x) return 10 * Loud.process(self, x) end
      function Louder:__add(other) return self.by + other.by end
      l, m, plain = Loud(2), Louder(3), Node:extend "Plain" "p")",
                   "s");
    CHECK(run(lua, "l:process(4)") == "8.0");
    CHECK(run(lua, "l:run(4)") == "9.0");  // by the host
    CHECK(run(lua, "m:run(1)") == "31.0");
    CHECK(run(lua, "plain:run(1) == 2 and plain.name") == "p");
    CHECK(run(lua, "m + m") == "6");
    CHECK(run(lua, "l.name .. tostring(l.nothing)") == "loudnil");
    CHECK(run(lua, "getmetatable(m) == Louder and Louder.super == Loud") == "true");
    // The script's part lives as long as the host holds the object.
    lua.run_string("hold(l) l = nil collectgarbage() collectgarbage()");
    CHECK(held->run(4) == 9);
    CHECK(run(lua, "held().by") == "2");
    lua.run_string("take(m) m = nil collectgarbage() collectgarbage()");
    CHECK(taken->run(1) == 31);
    taken.reset();
    lua.run_string("Wrong = Node:extend 'Wrong' function Wrong:init() end");
    CHECK(message_of([&] { lua.run_string("Wrong()", "s"); }).find("does not call Node.init") !=
          std::string::npos);
    CHECK(message_of([&] {
            lua.run_string("Node.init(Node())", "s");
          }).find("expected an object of a class that extends Node, got Node") !=
          std::string::npos);
    lua.run_string("function Loud:process(x) error('too loud') end");
    CHECK(message_of([&] { held->process(1); }) == "script:1: too loud");
    held.reset();
  }
  CHECK(Node::alive == before);
  Interpreter lua;
  lua.bind<Shape, ScriptedShape>("Shape").constructor<>().method("area", &Shape::area);
  lua.run_string("Square = Shape:extend 'Square' function Square:area() return self.side ^ 2 end");
  lua.run_string("s = Square() s.side = 3  n = (Shape:extend 'None')()");
  CHECK(lua.get<Shape*>("s")->area() == 9);
  CHECK(message_of([&] { lua.get<Shape*>("n")->area(); }) ==
        "a class that extends Shape does not define 'area'");
  CHECK(message_of([&] { lua.run_string("n:area()", "s"); })
            .find("Shape.area is for classes that "
                  "extend it to define") != std::string::npos);
}
