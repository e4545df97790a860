# Made by moat, for the vagrant processes that it starts. Yours is the file `Vagrantfile`.
unless defined?(MoatHelper)
  module MoatHelper
    # Where it is noted what a machine will be called: not in here, which a guest may see.
    def self.note(machine)
      File.join(File.dirname(__dir__), 'making', "machine-#{machine.name}")
    end

    class Tell
      def initialize(app, _env)
        @app = app
      end

      def call(env)
        begin
          info = env[:machine].ssh_info
          if info && info[:host] && !info[:proxy_command]
            keys = Array(info[:private_key_path]).map(&:to_s)
            user = info[:username]
            env[:machine].ui.machine('moat-ssh', info[:host], info[:port], user, *keys)
          end
        rescue StandardError
          nil # moat asks `vagrant ssh-config` then
        end
        @app.call(env)
      end
    end

    # What Vagrant does not say of a box that it cannot find: it is there, but for other providers.
    class Hint
      def initialize(app, _env)
        @app = app
      end

      def call(env)
        begin
          machine = env[:machine]
          box = machine.config.vm.box
          there = machine.env.boxes.all.select { |name, *| name == box }.map { |one| one[2].to_s }
          wanted = Array(machine.provider_options[:box_format] || machine.provider_name).map(&:to_s)
          if there.any? && (there & wanted).empty?
            machine.ui.machine('moat-hint', "the box #{box} that is here is for " \
              "#{there.uniq.join(' and ')}, and the machine is for #{wanted.first}")
          end
        rescue StandardError
          nil # Vagrant's own error has to do
        end
        @app.call(env)
      end
    end

    class Enter
      def initialize(app, _env)
        @app = app
      end

      def call(env)
        box = env[:machine].config.vm.box.to_s.gsub(/[^A-Za-z0-9]/, '-')
        lock = File.open(File.join(ENV['MOAT_BOX_LOCKS'], box + '.lock'), 'a', 0o600)
        await(env, lock)
        env[:moat_box_lock] = lock
        @app.call(env)
      ensure
        lock.close if lock
      end

      # Until the lock is ours, or Vagrant is interrupted: it undoes what there is then.
      def await(env, lock)
        news = Queue.new
        taker = Thread.new do
          lock.flock(File::LOCK_EX)
          news << :ours
        end
        word = Vagrant::Util::Busy.busy(-> { news << :interrupted }) do
          env[:interrupted] ? :interrupted : news.pop
        end
        raise Vagrant::Errors::VagrantInterrupt if word == :interrupted
      ensure
        taker.kill
      end
    end

    class Leave
      def initialize(app, _env)
        @app = app
      end

      def call(env)
        lock = env.delete(:moat_box_lock)
        lock.close if lock
        @app.call(env)
      end
    end

    # What a machine will be called, and where libvirt is: written down before anything of it is made.
    class Note
      def initialize(app, _env)
        @app = app
      end

      def call(env)
        note = MoatHelper.note(env[:machine])
        FileUtils.mkdir_p(File.dirname(note))
        File.open(note, 'w', 0o600) do |file|
          file.puts(env[:domain_name], env[:machine].provider_config.uri)
          file.fsync
        end
        @app.call(env)
      end
    end

    # Vagrant may have been killed before it wrote down what it had made: then it is found by name.
    class Adopt
      def initialize(app, _env)
        @app = app
      end

      def call(env)
        env[:config_validate] = false # what is wrong with a machine must not keep it alive
        machine = env[:machine]
        note = MoatHelper.note(machine)
        if machine.id.nil? && machine.provider_name == :libvirt && File.file?(note)
          adopt(machine, File.readlines(note, chomp: true).first.to_s)
        end
        @app.call(env)
        FileUtils.rm_f(note) if machine.id.nil?
      end

      def adopt(machine, name)
        client = machine.provider.driver.connection.client
        domain = client.lookup_domain_by_name(name)
        machine.id = domain.uuid if named_ours?(name) || domain.xml_desc.include?(__dir__)
      rescue ::Libvirt::RetrieveError # there is none; there may be disks
        remove_disks(client, name) if named_ours?(name)
      end

      def named_ours?(name)
        name.include?(File.basename(__dir__).delete_prefix('moat-')) # the sandbox's id
      end

      def remove_disks(client, name)
        disks = /\A#{Regexp.escape(name)}(_\d+\.img|\.img|-[a-z]+\.\w+)\z/
        client.list_all_storage_pools.select(&:active?).each do |pool|
          pool.list_volumes.grep(disks).each { |disk| pool.lookup_volume_by_name(disk).delete }
        end
      end
    end

    class Plugin < Vagrant.plugin('2')
      name 'moat'
      action_hook(:moat, :machine_action_up) do |hook|
        hook.before(Vagrant::Action::Builtin::WaitForCommunicator, Tell)
        hook.after(Vagrant::Action::Builtin::WaitForCommunicator, Tell)
        hook.before(Vagrant::Action::Builtin::HandleBox, Hint)
        if ENV['MOAT_BOX_LOCKS']
          hook.before(Vagrant::Action::Builtin::HandleBox, Enter)
          hook.after(Vagrant::Action::Builtin::HandleBox, Leave)
        end
        begin
          libvirt = VagrantPlugins::ProviderLibvirt::Action
          hook.after(libvirt::SetNameOfDomain, Note)
          if ENV['MOAT_BOX_LOCKS']
            hook.before(libvirt::HandleBoxImage, Enter)
            hook.after(libvirt::HandleBoxImage, Leave)
          end
        rescue NameError
          nil # another provider
        end
      end
      action_hook(:moat, :machine_action_destroy) do |hook|
        hook.before(Vagrant::Action::Builtin::ConfigValidate, Adopt)
      end
    end
  end
end
load File.join(__dir__, 'Vagrantfile')
